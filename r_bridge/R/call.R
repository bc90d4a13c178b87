# The call of a fit, for update(): code and public parameters, and never a row of the data.

# What stands where the call held the data themselves.
not_kept <- as.name("<data not kept>")

#' Update a private fit, and its terms
#'
#' `update()` changes the formula or arguments of the call of a fit and runs it again. **This is a new release, which costs its
#' `eps` again**: it has fresh noise, even where nothing was changed, and charges the ledger of the call. A formula that is
#' changed step by step, from one result to the next, has been chosen by all of them together: give all of them one [dp_ledger()].
#'
#' @param object,x A fit, from [dp_ols()] and its kin, or a `by =` collection of fits.
#' @param formula. Changes of the formula, as in [stats::update.formula()]: `. ~ . + x`. Of a fit with `select =` they are changes
#'   of the formula that was asked for, and not of the chosen one.
#' @param ... For `update()`: arguments of the call to add or to replace, by name; `NULL` takes one out. Otherwise refused.
#' @param evaluate Whether to run the new call, or to return it.
#'
#' @details
#' A fit keeps its call, with the formula as it was understood and arguments as they were written. Data are never kept: `data` must
#' be the name of a data frame, or `package::name`. Where the call held anything else, such as an expression or, in [do.call()], the
#' data themselves, the call has `<data not kept>` in their place, and `update()` wants `data =`. So it does where there is no longer
#' any object of that name.
#'
#' Fits that [dp_combine()] pooled, and fits of single groups, have no call of their own.
#'
#' @return `update()`: a new fit, or with `evaluate = FALSE` the call. `terms()`: a terms object as of [lm()], made from the formula,
#'   with the global environment; it has no `dataClasses`. `labels()`: the labels of the terms. `variable.names()`: the names of
#'   the coefficients.
#' @name dpstats-update
#' @aliases update.dpstats
#' @examplesIf dp_available() && requireNamespace("ggplot2", quietly = TRUE)
#' fit <- dp_ols(price ~ carat, data = ggplot2::diamonds, eps = 1)
#' update(fit, . ~ . + clarity, evaluate = FALSE)
#' update(fit, . ~ . + clarity, eps = 2)
#' labels(fit)
NULL

#' @rdname dpstats-update
#' @importFrom stats update
#' @export
update.dpstats <- function(object, formula., ..., evaluate = TRUE) {
  changes <- as.list(match.call(expand.dots = FALSE)$...)
  updated(object$call, if (!missing(formula.)) formula., changes, evaluate, parent.frame())
}

#' @rdname dpstats-update
#' @export
update.dpstats_groups <- function(object, formula., ..., evaluate = TRUE) {
  changes <- as.list(match.call(expand.dots = FALSE)$...)
  updated(group_facts(object)$call, if (!missing(formula.)) formula., changes, evaluate, parent.frame())
}

updated <- function(call, formula, changes, evaluate, envir) {
  check_flag(evaluate, "evaluate")
  if (is.null(call)) {
    fail("parameter_error", "this fit has no call of its own: it was pooled, belongs to one group, or comes from an earlier ",
         "version. Call the function again.")
  }
  if (!is.null(formula)) {
    call$formula <- as_code(stats::update.formula(stats::as.formula(call$formula, globalenv()), checked_change(formula)))
  }
  if (length(changes) && (is.null(names(changes)) || !all(nzchar(names(changes))))) {
    fail("parameter_error", "changes of arguments must be named, as in update(fit, . ~ . + x, eps = 1).")
  }
  for (name in names(changes)) call[[name]] <- changes[[name]]
  if (identical(call$data, not_kept)) fail("parameter_error", "data must be given, ", ask_for_data)
  if (!evaluate) return(call)
  if (is.name(call$data) && !exists(as.character(call$data), envir = envir)) {
    fail("parameter_error", "data must be given, as there is no longer any object '", as.character(call$data), "': write ",
         "update(fit, ..., data = d).")
  }
  call[[1]] <- getExportedValue("dpstats", called(call))
  eval(call, envir)
}

ask_for_data <- paste(
  "since the call of this fit held the data themselves or an expression, which are not kept: write update(fit, ..., data = d),",
  "with the name of a data frame."
)

checked_change <- function(formula) {
  if (!inherits(formula, "formula")) fail("parameter_error", "formula. must be a formula such as . ~ . + x.")
  formula
}

#' @importFrom stats getCall
#' @export
getCall.dpstats_groups <- function(x, ...) {
  no_others(...)
  group_facts(x)$call
}

#' @rdname dpstats-update
#' @importFrom stats terms
#' @export
terms.dpstats <- function(x, ...) {
  no_others(...)
  if (is.null(x$terms)) terms_of(x$formula) else x$terms
}

#' @rdname dpstats-update
#' @export
terms.dpstats_groups <- function(x, ...) {
  no_others(...)
  terms_of(group_facts(x)$formula)
}

terms_of <- function(formula) {
  environment(formula) <- globalenv()
  stats::terms(formula)
}

#' @rdname dpstats-update
#' @export
labels.dpstats <- function(object, ...) {
  no_others(...)
  attr(terms.dpstats(object), "term.labels")
}

#' @rdname dpstats-update
#' @importFrom stats variable.names
#' @export
variable.names.dpstats <- function(object, ...) {
  no_others(...)
  names(object$coefficients)
}

#' @rdname dpstats-update
#' @export
labels.dpstats_groups <- function(object, ...) {
  no_others(...)
  attr(terms.dpstats_groups(object), "term.labels")
}

#' @rdname dpstats-update
#' @export
variable.names.dpstats_groups <- function(object, ...) {
  no_others(...)
  coefficient_names(object)
}

# -- what is stored ------------------------------------------------------------------------------------------

# A matched call as a fit keeps it. `name` is the function's, `formula` what it understood, `envir` where it was called.
stored_call <- function(call, name, formula, envir) {
  parts <- as.list(call)
  head <- parts[[1]]
  qualified <- is.call(head) && identical(as.list(head)[1:2], list(as.name("::"), as.name("dpstats")))
  parts[[1]] <- if (qualified) call("::", as.name("dpstats"), as.name(name)) else as.name(name)
  others <- setdiff(names(parts)[-1], c("formula", "data"))
  parts[others] <- lapply(parts[others], public_argument, envir)
  parts$formula <- as_code(formula)
  parts$data <- named_data(parts$data)
  as.call(parts)
}

# The name of a data frame; `.` is that of a pipe, which is gone when the call has ended.
named_data <- function(expr) {
  named <- (is.name(expr) && !identical(expr, quote(.))) || (is.call(expr) && is.name(expr[[1]]) && is_call(expr, c("::", ":::")))
  if (named) expr else not_kept
}

# A formula as code, without class and environment.
as_code <- function(formula) {
  attributes(formula) <- NULL
  formula
}

# An argument as it was written. Where do.call() or bquote() put objects in, its value, which is public as it was accepted.
public_argument <- function(expr, envir) {
  if (inherits(expr, "formula")) return(as_code(expr))
  if (is_code(expr)) return(expr)
  plain_value(if (is.call(expr)) eval(expr, envir) else expr)
}

# Names, calls, and constants as they are typed.
is_code <- function(expr) {
  if (is.name(expr) || is.null(expr)) return(TRUE)
  if (is.call(expr)) return(is.null(attributes(expr)[["class"]]) && all(vapply(as.list(expr), is_code, NA)))
  is.atomic(expr) && length(expr) == 1 && is.null(attributes(expr))
}

plain_value <- function(value) {
  if (is.null(value) || inherits(value, "dp_ledger")) return(value)
  if (inherits(value, "formula")) return(as_code(value))
  if (inherits(value, "family")) return(value$family)
  if (is.factor(value)) return(as.character(value))
  if (is.atomic(value)) return(stats::setNames(as.vector(value), names(value)))
  if (is.list(value)) return(stats::setNames(lapply(value, plain_value), names(value)))
  as.name("<not kept>")
}

# -- arguments that lm() and glm() have --------------------------------------------------------------------------

elsewhere <- c(
  subset = paste(
    "subset the data frame before the call, as in data = d[d$year == 2020, ]. A subset by a private column is part of the query:",
    "neighbours are then those of the whole table, and where the number of rows is public (neighbours by substitution), that of",
    "the subset is published."
  ),
  weights = paste(
    "dp_ols() alone takes weights of rows, and has weights = \"unit\", with unit =, for persons with several rows."
  ),
  na.action = paste(
    "a row with a missing value in a column that the formula names is never used, and nothing says how many there are. Fill them",
    "in before the call, each from its own row, to keep them."
  ),
  offset = paste(
    "subtract it from the response of a linear model, as in I(y - x) ~ z; dp_poisson() has offset = and exposure =; dp_logit()",
    "has none."
  ),
  contrasts = "write them in the formula, as in C(f, contr.sum). See ?dp_formula.",
  cluster = "unit = \"id\" protects all rows of a person, and clusters standard errors by person.",
  vcov = "dp_ols() has cov_type =, and unit = \"id\" clusters by person. vcov(fit) is the covariance that was released.",
  epsilon = "the privacy budget is eps =.",
  family = "dp_glm() has one."
)

# For functions whose `...` is there to say what else to do.
no_more <- function(...) {
  names <- given_names(...)
  known <- intersect(names, names(elsewhere))
  if (!length(known)) return(no_others(..., caller = sys.function(sys.parent())))
  fail("parameter_error", "there is no argument '", known[1], "': ", elsewhere[[known[1]]])
}

# `weights` of dp_ols(): "row" or "unit", or weights of rows as an expression. `expr` is what was written, `value` its promise.
read_weights <- function(expr, value, data) {
  columns <- if (!is_path(data)) names(data)
  named <- all.vars(expr)
  if (length(named) && all(named %in% columns)) return(expr)
  given <- tryCatch(value, error = function(e) NA)
  if (is.null(given)) return("row")
  if (is_path(given) && given %in% c("row", "unit")) return(given)
  if (!is_path(given) || nchar(given) > 80) {
    fail("parameter_error", "weights must be \"row\", a column of the data, as in weights = w, its name or a short expression in quotes, or ",
         "\"unit\" with unit =.")
  }
  written(given, "weights", data)
}
