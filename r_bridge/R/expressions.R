# Expressions of a formula (R/formula.R) in the grammar of the Python package: numbers, and the pieces of all of them.

# -- numbers ---------------------------------------------------------------------------------------------------

row_functions <- c(
  log2 = "log2", log10 = "log10", log1p = "log1p", exp = "exp", expm1 = "expm1", sqrt = "sqrt", abs = "abs",
  sign = "sign", floor = "floor", ceiling = "ceil", trunc = "trunc", round = "rint", sin = "sin", cos = "cos",
  tan = "tan", asin = "arcsin", acos = "arccos", atan = "arctan", sinh = "sinh", cosh = "cosh", tanh = "tanh"
)
binary <- c(
  "+" = "+", "-" = "-", "*" = "*", "/" = "/", "^" = "**", "%%" = "%", "%/%" = "//", "<" = "<", "<=" = "<=",
  ">" = ">", ">=" = ">=", "==" = "==", "!=" = "!=", "&" = "&", "|" = "|"
)

learns <- "it would learn from other rows"
hints <- c(
  poly = paste0(learns, "; write poly(x, 2, raw = TRUE), a term of its own, or x + I(x^2)"),
  ns = paste0(learns, "; write bs(x, knots = c(...), Boundary.knots = c(lower, upper)) with knots of your choice"),
  scale = paste0(learns, "; the estimators standardise the columns themselves, privately"),
  min = paste0(learns, "; the smaller of two values of a row is pmin(x, y)"),
  max = paste0(learns, "; the larger of two values of a row is pmax(x, y)"),
  cut = "cut(...) must be a term of its own",
  is.na = "rows with a missing value are not used",
  cbind = "several responses are written cbind(y1, y2) ~ 1, on the left-hand side alone",
  as.Date = "a date is its number of days since 1970-01-01; write that number",
  "%in%" = "write comparisons, or factor(x, levels = c(...))",
  "&&" = "write & between comparisons",
  "||" = "write | between comparisons",
  "$" = "write the name of the column alone",
  "[[" = "write the name of the column alone",
  "[" = "write the name of the column alone"
)
hints <- c(hints, stats::setNames(
  rep(learns, 14),
  c("mean", "median", "sum", "sd", "var", "cumsum", "diff", "sort", "rank", "quantile", "lag", "ave", "length", "order")
))

numeric_code <- function(expr, state) {
  if (is.name(expr)) return(number_name(as.character(expr), state))
  if (!is.call(expr)) return(number_literal(expr))
  name <- called(expr)
  check_text(expr, name, state)
  args <- as.list(expr)[-1]
  translated <- function(i) numeric_code(args[[i]], state)
  if (name %in% c("(", "I") && length(args) == 1) return(translated(1))
  if (name %in% c("-", "+", "!") && length(args) == 1) {
    return(paste0(if (name == "!") "~" else name, grouped(translated(1))))
  }
  if (name %in% names(binary) && length(args) == 2) {
    return(paste(grouped(translated(1)), binary[[name]], grouped(translated(2))))
  }
  if (name %in% names(row_functions)) {
    if (length(args) != 1) refuse(expr, paste0(name, " takes one argument"))
    return(paste0("np.", row_functions[[name]], "(", translated(1), ")"))
  }
  switch(
    name,
    log = logarithm(expr, state),
    pmin = , pmax = {
      if (length(args) < 2 || !is.null(names(args))) refuse(expr, paste0("write ", name, "(x, y)"))
      both <- function(a, b) paste0("np.", if (name == "pmin") "minimum" else "maximum", "(", a, ", ", b, ")")
      Reduce(both, lapply(seq_along(args), translated))
    },
    ifelse = {
      args <- match_arguments(expr, c("test", "yes", "no"))
      if (length(args) < 3) refuse(expr, "write ifelse(test, yes, no)")
      parts <- vapply(args[c("test", "yes", "no")], numeric_code, "", state)
      paste0("np.where(", paste(parts, collapse = ", "), ")")
    },
    as.numeric = , as.double = {
      if (length(args) != 1) refuse(expr, paste0("write ", name, "(x)"))
      paste("1 *", grouped(translated(1)))
    },
    refuse(expr, if (name %in% names(hints)) hints[[name]] else "this function is not in the grammar")
  )
}

# The error of a column that is compared with text, of which levels are declared.
check_text <- function(expr, name, state) {
  if (!name %in% c("<", "<=", ">", ">=", "==", "!=", "%in%") || !any(vapply(as.list(expr)[-1], is_text, NA))) return(invisible())
  compared <- all.vars(expr)
  kinds <- vapply(compared, column_kind, "", state)
  if (!length(compared) || any(kinds %in% c("number", "truth"))) return(invisible())
  column <- typed(compared[1])
  declare <- if (kinds[[1]] != "factor") paste0(", with levels = list(", column, " = c(...)) in the call")
  refuse(expr, paste0("text is not compared: write ", column, " as a term", declare, ", or make the comparison a column of its own ",
                      "before the call"))
}

is_text <- function(expr) if (is_call(expr, c("c", "("))) any(vapply(as.list(expr)[-1], is_text, NA)) else is.character(expr)

logarithm <- function(expr, state) {
  args <- match_arguments(expr, c("x", "base"))
  if (is.null(args$x)) refuse(expr, "it names no column")
  x <- numeric_code(args$x, state)
  if (is.null(args$base)) return(paste0("np.log(", x, ")"))
  base <- number_of(constants(args$base, expr)[[1]], expr)
  if (base %in% c(2, 10)) return(paste0("np.log", base, "(", x, ")"))
  if (base <= 0 || base == 1) refuse(expr, "the base of a logarithm is positive and not 1")
  paste0("np.log(", x, ") / np.log(", literal(base), ")")
}

number_name <- function(name, state) {
  known <- is_path(state$data) || name %in% names(state$data)
  if (name == "pi" && !known) return("np.pi")
  if (name %in% c("T", "F") && !known) refuse(as.name(name), "a constant must be a number")
  kind <- column_kind(name, state)
  if (kind == "text") undeclared(name)
  if (kind == "factor") refuse(as.name(name), paste0("column '", name, "' is categorical, and this needs numbers"))
  read_column(name, state)
  python_name(name)
}

number_literal <- function(value) {
  if (!is.numeric(value) || length(value) != 1 || !is.finite(value)) refuse(value, "a constant must be a finite number")
  literal(value)
}

grouped <- function(code) {
  whole <- grepl("^([A-Za-z0-9_.]+|[0-9.]+e[+-]?[0-9]+|Q\\(\"[^\"\\\\]*\"\\)|np[.][a-z0-9]+\\([^()]*\\))$", code)
  if (whole) code else paste0("(", code, ")")
}

# -- pieces ----------------------------------------------------------------------------------------------------

is_call <- function(expr, names) is.call(expr) && called(expr) %in% names

# The name of what is called; stats::poly is poly.
called <- function(expr) {
  head <- expr[[1]]
  if (is.call(head) && as.character(head[[1]]) %in% c("::", ":::")) head <- head[[3]]
  if (is.name(head)) as.character(head) else "an expression"
}

refuse <- function(expr, why) {
  shown <- deparse1(expr)
  if (nchar(shown) > 80) shown <- paste0(substr(shown, 1, 77), "...")
  fail("formula_error", "the formula cannot contain '", shown, "': ", why, ". See ?dp_formula for what it can.")
}

match_arguments <- function(expr, parameters) {
  args <- as.list(expr)[-1]
  given <- if (is.null(names(args))) rep("", length(args)) else names(args)
  matched <- pmatch(given[nzchar(given)], parameters)
  free <- setdiff(seq_along(parameters), matched)
  if (anyNA(matched) || anyDuplicated(matched) || sum(!nzchar(given)) > length(free)) {
    refuse(expr, paste0("its arguments are ", paste(parameters, collapse = ", ")))
  }
  given[nzchar(given)] <- parameters[matched]
  given[!nzchar(given)] <- parameters[free][seq_len(sum(!nzchar(given)))]
  stats::setNames(args, given)
}

# Constants written out: one, or c(...), or a range such as 1:5.
constants <- function(expr, within, infinite = FALSE) {
  if (is_call(expr, c("c", "list"))) return(unlist(lapply(as.list(expr)[-1], constants, within, infinite), recursive = FALSE))
  if (is_call(expr, "(")) return(constants(expr[[2]], within, infinite))
  if (is_call(expr, "-") && length(expr) == 2) {
    return(lapply(constants(expr[[2]], within, infinite), function(v) -number_of(v, within)))
  }
  if (is_call(expr, "seq") && length(expr) <= 5) {
    numbers <- lapply(as.list(expr)[-1], function(e) number_of(constants(e, within)[[1]], within))
    found <- tryCatch(do.call(seq, numbers), error = function(e) NULL)
    if (length(found) && length(found) <= 10000) return(as.list(found))
  }
  if (is_call(expr, ":")) {
    ends <- vapply(as.list(expr)[-1], function(e) number_of(constants(e, within)[[1]], within), 0)
    if (abs(diff(ends)) <= 10000) return(as.list(ends[1]:ends[2]))
  }
  fine <- is.atomic(expr) && length(expr) == 1 && !is.na(expr) && (!is.numeric(expr) || infinite || is.finite(expr))
  if (!fine) refuse(within, "levels, knots and bounds must be written out, as in c(1, 2, 3)")
  list(expr)
}

number_of <- function(value, within) {
  if (!is.numeric(value)) refuse(within, "a number is expected here")
  as.double(value)
}

# A constant as Python writes it.
literal <- function(value) {
  if (is.logical(value)) return(if (value) "True" else "False")
  if (is.character(value)) return(quoted(value))
  if (value == round(value) && abs(value) < 2^53) return(format(value, scientific = FALSE, trim = TRUE, digits = 17))
  texts <- vapply(15:17, function(digits) format(value, digits = digits), "")
  texts[as.numeric(texts) == value][1]
}

quoted <- function(text) {
  text <- gsub("\"", "\\\"", gsub("\\", "\\\\", enc2utf8(text), fixed = TRUE), fixed = TRUE)
  text <- gsub("\n", "\\n", gsub("\r", "\\r", gsub("\t", "\\t", text, fixed = TRUE), fixed = TRUE), fixed = TRUE)
  paste0("\"", text, "\"")
}

python_words <- c(
  "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del", "elif",
  "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal", "not", "or",
  "pass", "raise", "return", "try", "while", "with", "yield"
)

python_name <- function(name) {
  # these words are numbers or the constant in Python's formulas
  special <- name == "Intercept" || tolower(name) %in% c("inf", "nan")
  plain <- grepl("^[A-Za-z_][A-Za-z0-9_]*$", name) && !name %in% python_words && !special
  if (plain) name else paste0("Q(", quoted(name), ")")
}
