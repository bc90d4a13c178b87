# Marginal means by emmeans: a reference grid without data.

#' Marginal means of private fits
#'
#' `emmeans::emmeans()`, `ref_grid()`, `contrast()` and `pairs()` take private fits, at no privacy cost. The reference grid holds no
#' data: factors are at their declared levels, and a numeric column is at its released location, a private median, or where `at =`
#' puts it.
#'
#' @param object A fit, from [dp_ols()], [dp_logit()] and their kin.
#' @param data Refused: averages of private rows would be published.
#' @param trms,xlev,grid,... As \pkg{emmeans} hands them on.
#'
#' @details
#' Locations come with the limits of columns that `summary()` names: their middle. A fit without limits, such as those of [dp_logit()]
#' and [dp_poisson()], with `winsorize = FALSE` or without a constant, has none, and neither has a variable that is in the model only
#' in a function of it, as in `log(x)`: give `at = list(x = 1)`. `cov.reduce` would reduce data and is refused; `joint_tests()` compares
#' locations plus and minus one. `emtrends()` needs `delta.var =`, as the range of a column is private. Levels are weighted
#' equally, or by numbers given in `weights =`: a fit does not tell how many rows a level has, so that `weights = "proportional"` and
#' the like have nothing to go by, and \pkg{emmeans} says so.
#'
#' Standard errors cover sampling and privacy noise; means that need what is not determined are `nonEst`. Where `at =` is
#' beyond the limits of a column, means and slopes are those of the line as it goes on there; `predict()` stays at the limit.
#' @name dpstats-emmeans
#' @examplesIf dp_available() && requireNamespace("emmeans", quietly = TRUE) && requireNamespace("ggplot2", quietly = TRUE)
#' fit <- dp_ols(price ~ carat + clarity, data = ggplot2::diamonds, eps = 1)
#' emmeans::emmeans(fit, "clarity")
#' emmeans::emmeans(fit, "clarity", at = list(carat = 1))
NULL

#' @rdname dpstats-emmeans
#' @exportS3Method emmeans::recover_data
recover_data.dpstats <- function(object, data = NULL, ...) {
  if (!is.null(data)) {
    fail("parameter_error", "data must not be given: averages of private rows would be published. Give at = list(x = 1).")
  }
  # ref_grid() takes a text as the reason to stop
  if (is.null(object$design)) return("This result has no regression function to predict from.")
  if (is.null(object$vcov) || object$covers != covers_both) return(no_prediction_errors)
  reduce <- asked_of_grid("cov.reduce")
  # joint_tests() asks for the mean minus and plus one; here they are about the location
  about <- is.function(reduce) && identical(body(reduce), body(emmeans::meanint))
  if (!is.null(reduce) && !about) {
    return("cov.reduce would reduce the private data, which a fit does not hold. Give at = list(x = 1).")
  }
  layout <- predictors_of(object)
  # emmeans evaluates the terms, of which bs() is no function of base R
  attr(layout, ".Environment") <- asNamespace("splines")
  columns <- lapply(stats::setNames(nm = all.vars(layout)), grid_values, object, asked_of_grid("at"), if (about) c(-1, 1) else 0)
  if (prod(lengths(columns)) > 1e5) return("The levels of the factors have more than 100,000 combinations.")
  # all combinations, since emmeans takes one that is missing for nesting
  table <- if (length(columns)) expand.grid(columns, KEEP.OUT.ATTRS = FALSE) else data.frame(`1` = 1, check.names = FALSE)
  left <- if (is.null(object$link)) object$formula[[2]] else as.name("response")
  structure(
    table,
    call = call("estimator", as_code(stats::reformulate("1", left))), terms = layout,
    predictors = names(table), responses = character()
  )
}

# What the user gave to the ref_grid() that is running; NULL if nothing. recover_data() is not told.
asked_of_grid <- function(argument) {
  running <- Filter(function(n) identical(sys.function(n), emmeans::ref_grid), seq_len(sys.nframe()))
  if (length(running)) {
    get_it <- substitute(if (missing(argument)) NULL else argument, list(argument = as.name(argument)))
    eval(get_it, sys.frame(running[length(running)]))
  }
}

# The terms of the right-hand side, with the offset of the call.
predictors_of <- function(object) {
  formula <- stats::formula(stats::delete.response(terms.dpstats(object)))
  formula[[2]] <- without_contrasts(formula[[2]])
  beside <- offset_of_call(object)
  if (!is.null(beside)) formula[[2]] <- call("+", formula[[2]], call("offset", beside))
  terms_of(formula)
}

# emmeans evaluates what is in the formula, and takes the name of a contrast for a variable; the design knows the contrasts.
without_contrasts <- function(expr) {
  if (!is.call(expr)) return(expr)
  if (is_call(expr, "C")) return(call("factor", match_arguments(expr, c("x", "contr"))$x))
  if (is_call(expr, "relevel")) return(call("factor", match_arguments(expr, c("x", "ref"))$x))
  as.call(lapply(as.list(expr), without_contrasts))
}

# The values of a variable in the grid: levels, a location, or Inf where nothing is known and the user says nothing.
grid_values <- function(name, object, at, around) {
  parts <- parts_of(object)
  for (part in parts) {
    if (part$kind == "levels" && identical(part$expr, as.name(name))) {
      # of factor(k, levels = 0:9) the variable is a number
      plain <- identical(part$label, deparse1(part$expr, backtick = TRUE))
      return(if (is.character(part$levels) || plain) factor(part$levels, part$levels) else part$levels)
    }
  }
  if (is.numeric(at[[name]])) return(at[[name]][1])
  for (block in object$design$blocks) {
    part <- if (length(block$parts) == 1) block$parts[[1]]
    if (identical(part$kind, "number") && identical(part$expr, as.name(name))) return(location_of(object, part$label) + around)
  }
  Inf
}

parts_of <- function(object) unlist(lapply(object$design$blocks, function(block) block$parts), recursive = FALSE)

# Limits lie about the released location; without a constant they lie about 0.
location_of <- function(object, label) {
  at <- match(label, object$design$names)
  middle <- (object$design$low[at] + object$design$high[at]) / 2
  if ("(Intercept)" %in% object$design$names && length(middle) && is.finite(middle)) middle else Inf
}

#' @rdname dpstats-emmeans
#' @exportS3Method emmeans::emm_basis
emm_basis.dpstats <- function(object, trms, xlev, grid, ...) {
  numbers <- Filter(is.numeric, grid)
  unknown <- names(numbers)[!vapply(numbers, function(x) all(is.finite(x)), NA)]
  if (length(unknown)) {
    fail("not_released", "No location of ", paste0("'", unknown, "'", collapse = ", "), " was released; say where the means are ",
         "wanted, as in at = list(", paste0(unknown, " = 1", collapse = ", "), ").")
  }
  # means are about the line, also where it goes on beyond the limits of predict()
  X <- design_matrix(object$design, levels_as_declared(grid, object), limit = FALSE)
  known <- determined(object)
  cov <- object$vcov
  # beside a reference level that left the model coefficients may move together, and their other combinations are known
  if (!is.null(object$free) && !is.null(object$root)) {
    known <- stats::complete.cases(object$root)
    cov <- tcrossprod(object$root)
  }
  moved <- cbind(object$free, diag(length(known))[, !known, drop = FALSE])
  misc <- list(postGridHook = unweighted)
  if (!is.null(object$link)) {
    misc$tran <- object$link
    misc$inv.lbl <- if (object$link == "logit") "prob" else "rate"
  }
  basis <- well_conditioned(list(
    X = X, bhat = replace(unname(object$coefficients), !known, NA), V = unname(cov[known, known, drop = FALSE])
  ), if (is.null(object$free)) factor_of(object), known)
  list(
    X = basis$X, bhat = basis$bhat, nbasis = if (ncol(moved)) moved else matrix(NA), V = basis$V,
    dffun = function(k, dfargs) dfargs$df, dfargs = list(df = if (is.null(object$df)) Inf else object$df), misc = misc
  )
}

# Coordinates in which the covariance of the coefficients that are known is the identity: emmeans knows of no factor.
well_conditioned <- function(basis, root, known) {
  if (is.null(root) || !any(known)) return(basis)
  parts <- qr(t(root[known, , drop = FALSE]), LAPACK = TRUE)
  factor <- t(qr.R(parts))
  sizes <- abs(diag(factor))
  if (ncol(factor) < sum(known) || any(sizes <= 1e-15 * sqrt(rowSums(factor^2)))) return(basis)
  at <- which(known)[parts$pivot]
  basis$bhat[known] <- forwardsolve(factor, basis$bhat[at])
  basis$X[, known] <- basis$X[, at, drop = FALSE] %*% factor
  basis$V[] <- diag(length(at))
  basis
}

# Factors of the grid whose levels are declared as numbers or truth values, as these.
levels_as_declared <- function(grid, object) {
  for (part in parts_of(object)) {
    name <- if (is.name(part$expr)) as.character(part$expr)
    if (part$kind == "levels" && !is.character(part$levels) && is.factor(grid[[name]])) {
      grid[[name]] <- part$levels[match(as.character(grid[[name]]), as.character(part$levels))]
    }
  }
  grid
}

# The numbers of rows in the grid would be those of the table that recover_data() made.
unweighted <- function(grid, ...) {
  grid@grid[[".wgt."]] <- NULL
  grid
}
