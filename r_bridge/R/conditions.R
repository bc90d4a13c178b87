# Errors are conditions of class c("dpstats_<kind>", "dpstats_error", "error", "condition"). Their text may depend on
# the call, the formula, what is declared about the columns, and released values; never on the data. A value of an
# argument is shown only if it is a single number or a short text: a vector may be a column in the wrong place.

fail <- function(kind, ..., guarantee = NULL) {
  stop(structure(
    list(message = paste0(...), call = NULL, guarantee = guarantee),
    class = c(paste0("dpstats_", kind), "dpstats_error", "error", "condition")
  ))
}

# What Python answered: its value, or its error as a condition, in the names of the request where there is one.
unwrap <- function(answer, request = NULL, in_words = in_r_words) {
  error <- answer[["error"]]
  if (is.null(error)) return(answer[["value"]])
  message <- named_here(error[["message"]])
  if (!is.null(request)) {
    message <- in_r_names(message, character(), character(), request$meaning)
    if (!is_path(request$columns)) message <- without_types(message)
  } else {
    message <- in_words(message)
  }
  fail(error[["kind"]], message, guarantee = as_guarantee(error[["guarantee"]]))
}

# Columns in memory have the types of R, but travel as bare numbers.
without_types <- function(message) sub(" \\(Of no declared type: .*?text needs levels=?\\.\\)", "", message, perl = TRUE)

# Messages name what to write. These are the places where that differs between the languages.
idioms <- list(
  c("'([^']*)': \\(lower, upper\\)", "\\1 = c(lower, upper)"),
  c("bounds=\\{([^}]*)\\}", "bounds = list(\\1)"),
  c("levels=\\{\"([^\"]*)\": \\[\\.\\.\\.\\]\\}", "levels = list(\\1 = c(...))"),
  c("C\\((.*?), levels=\\[\\.\\.\\.\\]\\) in the formula", "factor(\\1, levels = c(...)) in the formula"),
  c("a pandas categorical dtype whose categories are public", "a factor, whose levels are taken as public"),
  c("'height \\+ weight ~ 1'", "'cbind(height, weight) ~ 1'"),
  c("\\b(bounds|levels)\\['([^']*)'\\]", "\\1$\\2"),
  c("\\s*What a formula may contain: docs/formulas\\.md\\.", " See ?dp_formula for what it can."),
  c("lower_bound= and upper_bound= must be given here, or bounds = list\\(\\.\\.\\.\\) declared for the column",
    "Boundary.knots = c(lower, upper) must be given, or bounds = list(...) declared for the column"),
  c("lower_bound > upper_bound \\(.*?\\)\\)", "the lower boundary knot is above the upper)"),
  c("some knot values \\(\\[.*?\\]\\) fall (above|below) (upper|lower) bound \\(.*?\\)\\)",
    "some knots fall \\1 the \\2 boundary knot)"),
  c("\\(pd\\.to_numeric;", "(as.numeric();"),
  c("a mapping from (.*?) to positive numbers", "a list of positive numbers by column (\\1)"),
  c("\\[T\\.([^]]*)\\]", "\\1"),
  c("\\bshape \\(([0-9]+),\\)", "length \\1"),
  c("'Intercept'", "'(Intercept)'"),
  c("\\bgot list\\.$", "got a vector."),
  c("\\bgot dict\\.$", "got a list."),
  c("\\bgot str\\.$", "got a long text."),
  c("\\bgot (-?[0-9]+)\\.0\\.$", "got \\1."),
  c(", got a pair of .*\\.$", "."),
  c("\\ba dictionary\\b", "a list"),
  c("\\bamong \\[([^]]*)\\]", "among \\1"),
  c("\\b([a-z_]+)=(?=[\\w'\"])", "\\1 = "),
  c("\\b(bounds|levels|select|by|ledger|unit)=(?![\\w'\"])", "\\1"),
  c("\\b(?:dpstats\\.)?Ledger\\b(\\()?", "dp_ledger("),
  c("\\bdp_ledger\\((?=[ ,.]|$)", "dp_ledger()"),
  c("\\bselect_features\\b(?!\\()", "dp_select_features()"),
  c("\\bNone\\b", "NULL"),
  c("\\bTrue\\b", "TRUE"),
  c("\\bFalse\\b", "FALSE"),
  c("\\bnan\\b", "NaN"),
  c("\\binf\\b", "Inf")
)

# The names of the functions of the Python package that have `dp_` in front here. Python says them, once in a session.
estimators <- function() {
  if (is.null(session$estimators)) session$estimators <- unlist(bridge()$estimators()[["value"]])
  session$estimators
}

# Messages begin with the name of the function.
named_here <- function(messages) {
  begin <- paste0("^(", paste(c(estimators(), "describe"), collapse = "|"), ")(?=[: ])")
  refused <- paste0("(?<=has too little left for )(", paste(estimators(), collapse = "|"), ")(?=:)")
  sub(refused, "dp_\\1", sub(begin, "dp_\\1", messages, perl = TRUE), perl = TRUE)
}

in_r_words <- function(text) {
  names <- paste(c(estimators(), "describe", "plan", "split", "combine"), collapse = "|")
  names <- paste0("\\bdpstats\\.(", names, ")\\b(\\(\\))?")
  text <- gsub(names, "dp_\\1()", text, perl = TRUE)
  for (idiom in idioms) text <- gsub(idiom[1], idiom[2], text, perl = TRUE)
  text
}

# -- arguments that several functions check ------------------------------------------------------------------

check_flag <- function(value, what) {
  if (!isTRUE(value) && !isFALSE(value)) fail("parameter_error", what, " must be TRUE or FALSE.")
  value
}

is_one_of <- function(value, allowed) is.character(value) && length(value) == 1 && value %in% allowed

# For methods that must have `...`: nothing is ignored.
no_others <- function(..., caller = sys.function(sys.parent())) {
  names <- given_names(...)
  if (!length(names)) return(invisible())
  if (!all(nzchar(names))) fail("parameter_error", "there is an argument too many.")
  known <- setdiff(names(formals(caller)), "...")
  near <- known[utils::adist(names[1], known, ignore.case = TRUE) <= nchar(names[1]) %/% 4]
  meant <- if (length(near) && length(names) == 1) paste0("; did you mean '", near[1], "'?") else "."
  fail("parameter_error", "there is no argument ", paste0("'", names, "'", collapse = ", "), meant)
}

# Names of arguments, empty for one without; none is evaluated.
given_names <- function(...) {
  given <- as.list(substitute(list(...)))[-1]
  if (is.null(names(given))) rep("", length(given)) else names(given)
}
