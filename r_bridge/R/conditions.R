# Errors are conditions of class c("dpstats_<kind>", "dpstats_error", "error", "condition"). Their text may depend on
# the call, the formula, what is declared about the columns, and released values; never on the data.

kinds_of_error <- c(
  ParameterError = "parameter_error",
  FormulaError = "formula_error",
  SchemaError = "schema_error",
  BudgetExceeded = "budget_exceeded",
  LedgerError = "ledger_error",
  NotReleased = "not_released",
  ReleaseFailed = "release_failed"
)

fail <- function(kind, ..., guarantee = NULL) {
  stop(structure(
    list(message = paste0(...), call = NULL, guarantee = guarantee),
    class = c(paste0("dpstats_", kind), "dpstats_error", "error", "condition")
  ))
}

# What Python answered: its value, or its error as a condition.
unwrap <- function(answer) {
  error <- answer[["error"]]
  if (is.null(error)) {
    for (text in as.character(answer[["warnings"]])) warning(in_r_words(text), call. = FALSE)
    return(answer[["value"]])
  }
  kind <- kinds_of_error[error[["kind"]]]
  if (is.na(kind)) kind <- "python_error"
  fail(kind, in_r_words(error[["message"]]), guarantee = as_guarantee(error[["guarantee"]]))
}

# Messages name what to write. These are the places where that differs between the languages.
idioms <- list(
  c("\\{'([^']*)': \\(lower, upper\\)\\}", "list(\\1 = c(lower, upper))"),
  c("bounds=\\{\\.\\.\\.\\}", "bounds = list(...)"),
  c("levels=\\{\"([^\"]*)\": \\[\\.\\.\\.\\]\\}", "levels = list(\\1 = c(...))"),
  c("C\\((.*?), levels=\\[\\.\\.\\.\\]\\) in the formula", "factor(\\1, levels = c(...)) in the formula"),
  c("a pandas categorical dtype whose categories are public", "a factor, whose levels are taken as public"),
  c("(bounds|levels|guarantee|select|by|alpha|c|at|clip|mechanism)=(?=[\\w'\"])", "\\1 = "),
  c("(bounds|select|by|ledger)=(?=[^\\w'\"]|$)", "\\1"),
  c("\\bdpstats\\.Ledger\\b", "dp_ledger()"),
  c("\\bdpstats\\.([a-z][a-z_]*)(\\(\\))?", "dp_\\1()"),
  c("\\bselect_features\\b(?!\\()", "dp_select_features()"),
  c("\\bNone\\b", "NULL"),
  c("\\bTrue\\b", "TRUE"),
  c("\\bFalse\\b", "FALSE"),
  c("\\bnan\\b", "NaN"),
  c("\\binf\\b", "Inf")
)

in_r_words <- function(text) {
  for (idiom in idioms) text <- gsub(idiom[1], idiom[2], text, perl = TRUE)
  text
}
