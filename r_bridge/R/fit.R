# What a fit offers. Everything is computed from released numbers, in R alone.

#' Methods for private fits
#'
#' A fit is a plain list of class `"dpstats"`: released numbers, the formula and the guarantee. It holds no row of the
#' data, so that a saved fit publishes no more than its printed summary; [saveRDS()] and [readRDS()] round-trip, and
#' none of these methods needs Python.
#'
#' @param object,x A fit, from [dp_ols()] and its kin.
#' @param parm Names or positions of coefficients; by default all.
#' @param level Confidence of the intervals. By default 0.95, or what they were released for where that is the
#'   only one.
#' @param newdata A data frame with the columns of the right-hand side of the formula.
#' @param se.fit Whether to return standard errors of the predicted means, too.
#' @param interval `"none"`; `"confidence"`, intervals of means; or `"prediction"`, intervals of single responses, where sigma
#'   was released.
#' @param type `"response"`, or `"link"`, which is the same for a linear fit.
#' @param complete As of [stats::coef()]: all coefficients are there anyway.
#' @param use.fallback As of [stats::nobs()]: there is none.
#' @param ... Refused.
#'
#' @details
#' `predict()` gives `NA` for a row with a missing or an undeclared value. Where the fit moved columns into limits,
#' predictions do so too; `summary()` says which. There are no fitted values and no residuals: they have one entry for
#' each private row, so `fitted()` and `residuals()` stop and say why, as do `logLik()`, [AIC()], `deviance()` and
#' others that are computed from the rows. (Fits of [dp_logit()] and [dp_poisson()] have a released [deviance()][dpstats-glm].)
#'
#' Standard errors and intervals of predictions cover sampling and privacy noise, at no privacy cost. They are `NA` where what
#' they need is not determined, and for a row with a column beyond its limits or declared bounds: its prediction is the mean at
#' the limit, and its own mean is another. [emmeans][dpstats-emmeans] follows the line beyond the limits. Intervals of single
#' responses suppose normal errors of one variance.
#'
#' `confint()` and `vcov()` are `NA` where there is no interval and no covariance; `summary()` gives the reason. Where other
#' coefficients have an interval, `NA` means that the release does not determine this one, as `NA` of [lm()] does for aliased
#' columns: more rows, a larger `eps` or fewer columns may help. A prediction may be determined where
#' coefficients that it needs are not, as the mean of a level beside a rare reference level.
#' `nobs()` is **a noisy count**: what the release says of the number of rows, with a fraction; of a fit with `unit =` that of the
#' units. It is exact only where the number of rows is public (then it is an integer), and `NA` where none was released.
#'
#' Joint tests of terms are those of [anova()][anova.dpstats]; others come from packages that need `coef()` and `vcov()` alone,
#' such as `car::linearHypothesis()`. For these centre a column before powers of it are taken: of a year and its square and cube
#' `vcov()` has lost the digits that its small directions need, and only `predict()`, `anova()`, [dp_combine()] and
#' [dpstats-emmeans] go on from more than it.
#' `df.residual()` is for them: the degrees of freedom of Student's t, or `NULL` where tests use the normal distribution.
#' It tells nothing of the number of rows.
#'
#' `family()` of a linear fit is [gaussian()], for its identity link; no law of the errors is assumed. [dpstats-update] has
#' `update()`, `terms()` and `labels()`, [dpstats-emmeans] has marginal means.
#'
#' @return `coef()`: a named vector, `NA` for a column that left the model. `confint()`: a matrix with two columns. `vcov()`: a matrix. `predict()`: a numeric
#'   vector; with `interval` a matrix with the columns `fit`, `lwr` and `upr`; with `se.fit` a list of these as `fit`, of `se.fit`,
#'   of `df` (`Inf` where intervals use the normal distribution) and of `residual.scale`, as that of [predict.lm()].
#'   `sigma()`: the released residual standard deviation; of [dp_huber()] the scale of the residuals (MAD).
#' @name dpstats-methods
#' @examplesIf dp_available() && requireNamespace("ggplot2", quietly = TRUE)
#' fit <- dp_ols(price ~ carat + clarity, data = ggplot2::diamonds, eps = 1)
#' coef(fit)
#' confint(fit, "carat", level = 0.9)
#' predict(fit, data.frame(carat = c(0.5, 1), clarity = c("SI1", "IF")), interval = "confidence")
NULL

#' @rdname dpstats-methods
#' @export
coef.dpstats <- function(object, complete = TRUE, ...) {
  no_others(...)
  shown_coefficients(object)
}

# `NA` for a column that has left the model: predictions are as if its coefficient were 0, but nothing is estimated.
shown_coefficients <- function(object) {
  replace(object$coefficients, !determined(object) & object$coefficients == 0, NA)
}

#' @rdname dpstats-methods
#' @export
vcov.dpstats <- function(object, complete = TRUE, ...) {
  no_others(...)
  if (!is.null(object$vcov)) return(object$vcov)
  names <- names(object$coefficients)
  matrix(NA_real_, length(names), length(names), dimnames = list(names, names))
}

#' @rdname dpstats-methods
#' @export
confint.dpstats <- function(object, parm, level = 1 - object$alpha, ...) {
  no_others(...)
  check_level(level)
  ends <- interval_ends(object, level)
  tails <- c((1 - level) / 2, (1 + level) / 2)
  dimnames(ends) <- list(names(object$coefficients), paste(format(100 * tails, trim = TRUE, digits = 3), "%"))
  if (missing(parm)) return(ends)
  ends[chosen(parm, names(object$coefficients), "parm"), , drop = FALSE]
}

#' @rdname dpstats-methods
#' @export
predict.dpstats <- function(object, newdata, se.fit = FALSE, interval = "none", level = 0.95, type = "response", ...) {
  no_others(...)
  check_flag(se.fit, "se.fit")
  if (!is_one_of(interval, c("none", "confidence", "prediction"))) {
    fail("parameter_error", "interval must be \"none\", \"confidence\" or \"prediction\".")
  }
  check_level(level)
  # of a linear fit both are the same
  check_type(type, "type")
  X <- new_rows(object, newdata)
  values <- linear_values(object, X, newdata)
  if (!se.fit && interval == "none") return(values)
  se <- linear_errors(object, X)
  scale <- object$released[["sigma"]]
  if (interval == "prediction" && is.null(scale)) not_released("sigma", no_sigma)
  if (interval != "none") {
    half <- critical_value(object$df, level) * if (interval == "prediction") sqrt(scale^2 + se^2) else se
    values <- cbind(fit = values, lwr = values - half, upr = values + half)
  }
  if (!se.fit) return(values)
  names(se) <- if (is.matrix(values)) rownames(values) else names(values)
  list(
    fit = values, se.fit = se, df = if (is.null(object$df)) Inf else object$df,
    residual.scale = if (is.null(scale)) NA_real_ else scale
  )
}

# The columns of the formula at new rows.
new_rows <- function(object, newdata) {
  if (missing(newdata)) fail("not_released", "predict() needs newdata: a value for each row of private data was not released.")
  if (is.null(object$design)) fail("not_released", "This result has no regression function to predict from.")
  design_matrix(object$design, newdata)
}

linear_values <- function(object, X, newdata) {
  values <- drop(X %*% object$coefficients)
  if (is.data.frame(newdata)) names(values) <- row.names(newdata)
  values
}

# Standard errors of linear predictors. What no row uses may be not determined, and so may terms whose sum does not move with
# what is free. The mean at a limit is not that of a row beyond it.
linear_errors <- function(object, X) {
  if (is.null(object$vcov) || object$covers != covers_both) fail("not_released", no_prediction_errors)
  if (is.null(object$root) || is.null(object$free)) {
    lost <- !determined(object)
    se <- sqrt(variances(object, X))
  } else {
    lost <- !stats::complete.cases(object$root)
    se <- sqrt(rowSums((X %*% replace(object$root, lost[row(object$root)], 0))^2))
    moved <- abs(X %*% object$free) > 1e-12 * (abs(X) %*% abs(object$free))
    se[rowSums(moved) > 0] <- NA
  }
  se[rowSums(X[, lost, drop = FALSE] != 0) > 0] <- NA
  se[attr(X, "moved")] <- NA
  unname(se)
}

# A factor F of the covariance F F', which holds the digits that vcov() rounds away where columns are powers of one far from 0.
as_root <- function(values, d, order) {
  if (!is.null(values)) matrix(as_numbers(values), nrow = d, byrow = TRUE)[order, , drop = FALSE]
}

# That factor without rows of coefficients that are not determined; NULL for a fit of an older version, or with another vcov.
factor_of <- function(object) {
  known <- is.finite(diag(as.matrix(object$vcov)))
  if (is.null(object$root) || !all(is.finite(object$root[known, ]))) return(NULL)
  sd <- sqrt(diag(object$vcov)[known])
  off <- abs(tcrossprod(object$root[known, , drop = FALSE]) - object$vcov[known, known, drop = FALSE])
  if (isTRUE(all(off <= 1e-8 * outer(sd, sd)))) replace(object$root, !known[row(object$root)], 0)
}

# Variances of linear combinations of the coefficients, without those that are not determined; NA where a fit without the factor
# cannot tell them from rounding.
variances <- function(object, X) {
  known <- function(values) replace(values, is.na(values), 0)
  root <- factor_of(object)
  if (!is.null(root)) return(rowSums((X %*% root)^2))
  cov <- known(unname(vcov.dpstats(object)))
  found <- rowSums((X %*% cov) * X)
  rounding <- 1e-13 * rowSums((abs(X) %*% abs(cov)) * abs(X))
  replace(found, which(found < rounding), NA)
}

# The quantile of the normal distribution, or of Student's t.
critical_value <- function(df, level) {
  tail <- (1 - level) / 2
  -if (is.null(df)) stats::qnorm(tail) else stats::qt(tail, df)
}

#' @rdname dpstats-methods
#' @export
formula.dpstats <- function(x, ...) {
  no_others(...)
  x$formula
}

#' @rdname dpstats-methods
#' @export
nobs.dpstats <- function(object, use.fallback = FALSE, ...) {
  no_others(...)
  rows <- object$released[["nobs"]]
  if (is.null(rows)) return(if (is.null(object$released[["n"]])) NA_real_ else object$released[["n"]])
  if (rows <= .Machine$integer.max) as.integer(rows) else rows
}

#' @rdname dpstats-methods
#' @importFrom stats sigma
#' @export
sigma.dpstats <- function(object, ...) {
  no_others(...)
  if (is.null(object$released[["sigma"]])) {
    not_released("sigma", no_sigma)
  }
  object$released[["sigma"]]
}

#' @rdname dpstats-methods
#' @export
df.residual.dpstats <- function(object, ...) {
  no_others(...)
  object$df
}

#' @rdname dpstats-methods
#' @importFrom stats family
#' @export
family.dpstats <- function(object, ...) {
  no_others(...)
  if (is.null(object$design)) fail("not_released", "This result has no regression function, and so no family.")
  stats::gaussian()
}

#' What a result guarantees
#'
#' @param x A fit, groups of fits, a selection, or the condition of a failed release.
#' @param ... Refused.
#' @return A list of class `"dpstats_guarantee"` with `eps`, `delta`, `neighbours`, `kind`, `gamma`, `seeded`, `scope`,
#'   `unit` (the column whose values are protected; `NULL` for single records), and the data frame `spends` with one row for each step: `step`, `mechanism`, `eps`, `delta`, `mu`, `rho`, and its `share` of the
#'   budget.
#' @examplesIf dp_available()
#' fit <- dp_median(mpg ~ 1, data = mtcars, eps = 5)
#' dp_guarantee(fit)
#' @export
dp_guarantee <- function(x) {
  if (!is.list(x) || !inherits(x$guarantee, "dpstats_guarantee")) {
    fail("parameter_error", "x must be a result of this package.")
  }
  x$guarantee
}

#' Test of constant error variance
#'
#' Whether the errors of a private regression have the same variance for all rows, from released values.
#'
#' @param x A fit, from [dp_ols()] and its kin.
#' @return An object of class `"htest"`. An error of class `"dpstats_not_released"` where the estimator releases nothing
#'   that tells.
#' @examplesIf dp_available()
#' fit <- dp_median(mpg ~ 1, data = mtcars, eps = 5)
#' try(dp_het_test(fit))
#' @export
dp_het_test <- function(x) {
  if (!inherits(x, "dpstats")) fail("parameter_error", "x must be a fit of this package.")
  if (is.null(x$het)) {
    fail("not_released", "This result has no test of constant error variance: its estimator releases none, or nothing is determined.")
  }
  df <- x$het$df
  structure(
    list(
      statistic = stats::setNames(x$het$statistic, if (is.null(df)) "statistic" else "X-squared"),
      parameter = if (!is.null(df)) c(df = df),
      p.value = x$het$pvalue,
      method = "Test of constant error variance (differentially private)",
      data.name = deparse1(x$formula)
    ),
    class = "htest"
  )
}

check_level <- function(level, what = "level") {
  fine <- is.numeric(level) && length(level) == 1 && !is.na(level) && level > 0 && level < 1
  got <- if (is.numeric(level) && length(level) == 1) paste0(", got ", format(level))
  if (!fine) fail("parameter_error", what, " must be a number in (0, 1)", got, ".")
}

# The names that an argument chooses, by name or position.
chosen <- function(wanted, names, what) {
  if (is.numeric(wanted)) wanted <- names[wanted]
  if (anyNA(wanted) || !all(wanted %in% names)) {
    fail("parameter_error", what, " must be among the coefficients: ", paste(names, collapse = ", "), ".")
  }
  wanted
}

standard_errors <- function(object) {
  variances <- diag(vcov.dpstats(object))
  sqrt(ifelse(!is.na(variances) & variances >= 0, variances, NA))
}

# As Python's `determined`: FALSE where others have an interval and this one has none, or the whole line.
determined <- function(object) {
  if (is.null(object$vcov) && is.null(object$interval)) return(rep(TRUE, length(object$coefficients)))
  ends <- interval_ends(object, 1 - object$alpha)
  !tells_nothing(ends[, 1], ends[, 2])
}

tells_nothing <- function(low, high) is.na(low) | is.na(high) | (is.infinite(low) & is.infinite(high))

# z or t; none where the standard errors lack the sampling variation.
test_statistics <- function(object) {
  if (object$covers != covers_both) return(object$coefficients * NA)
  object$coefficients / standard_errors(object)
}

p_values <- function(statistics, df) {
  2 * if (is.null(df)) stats::pnorm(-abs(statistics)) else stats::pt(-abs(statistics), df)
}

covers_both <- "sampling and privacy noise"
covers_noise <- "privacy noise only"
