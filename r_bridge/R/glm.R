# Generalised linear models: the estimators, and what their fits have beside those of R/fit.R.

#' Private logistic and Poisson regression
#'
#' `dp_logit()`: a 0/1 response. `dp_poisson()`: counts, with an offset or an exposure. `dp_glm()`: either, or [dp_ols()], by
#' its `family`. Nothing to tune, and no bounds of the data to guess.
#'
#' @inheritParams dp_ols
#' @param formula A formula, see [dp_formula]. The response of `dp_logit()` is 0 and 1, logical, or a factor with two
#'   levels, of which the second is the event, as in [glm()]; that of `dp_poisson()` is a non-negative integer. A row with
#'   any other value is not used. The formula of `dp_poisson()` may contain [offset()].
#' @param cov_type Standard errors of the model (`"nonrobust"`), or a sandwich (`"robust"`), which for counts allows for more
#'   variation than Poisson's.
#' @param offset,exposure The name of a column, or an expression in quotes, that is added to the linear predictor: itself, or
#'   the logarithm of an exposure. `exposure = "years"` is `offset(log(years))` in the formula. Not with `select`.
#' @param family [binomial()], [poisson()] or [gaussian()], each with its canonical link. It has no default: that of [glm()] is
#'   `gaussian()`, and a model that was not meant costs its budget.
#' @param ... Of `dp_glm()`: further arguments of `dp_logit()`, `dp_poisson()` or `dp_ols()`. Otherwise refused; `subset`,
#'   `na.action`, `contrasts` and `weights` of [glm()] say what to do in their place.
#'
#' @inheritSection dp_ols Privacy
#' @section Standard errors:
#' They add up sampling, privacy noise, and bounds on what the mechanism leaves out. Where the noise hides a direction of the
#' columns a coefficient is not determined: `NA`, and a line below the table. Where columns separate the classes, estimates stay
#' finite. With fewer than some hundred events at `eps = 1` the normal approximation of the intervals is rough; with
#' some thousand rows of overdispersed counts the standard errors are mostly the bound on what the limit of a row's
#' contribution takes off. Rows far out count less; where the mean is not the model's, intervals allow for
#' what is seen of that beyond the noise.
#'
#' @return A fit of classes `"dpstats_glm"` and `"dpstats"`, see [dpstats-glm] and [dpstats-methods]; with `by`,
#'   [a collection of fits][dpstats-groups]. An error of class `"dpstats_release_failed"` if there are too few rows, or
#'   hardly any of one of the classes; it has a `guarantee` since it has been paid for.
#' @examplesIf dp_available() && requireNamespace("ggplot2", quietly = TRUE)
#' fit <- dp_logit(I(price > 5000) ~ depth + table, data = ggplot2::diamonds, eps = 1)
#' summary(fit, exponentiate = TRUE)
#' dp_marginal_effects(fit)
#'
#' rows <- data.frame(x = rnorm(20000), years = runif(20000, 1, 5))
#' rows$visits <- rpois(20000, rows$years * exp(0.3 * rows$x))
#' dp_glm(visits ~ x + offset(log(years)), rows, family = poisson(), eps = 1)
#' @export
dp_logit <- function(formula, data, eps, delta = 1e-6, cov_type = "nonrobust", select = NULL, bounds = NULL,
                     levels = NULL, by = NULL, unit = NULL, ledger = NULL, seed = NULL, ...) {
  own <- list(eps = need(eps, "eps"), delta = delta, cov_type = cov_type, select = select, seed = seed)
  glm <- list(name = "dp_logit", takes_levels = TRUE, takes_offset = FALSE)
  run("logit", formula, data, own, ledger, levels, bounds, by, unit, glm)
}

#' @rdname dp_logit
#' @export
dp_poisson <- function(formula, data, eps, delta = 1e-6, offset = NULL, exposure = NULL, cov_type = "robust",
                       select = NULL, bounds = NULL, levels = NULL, by = NULL, unit = NULL, ledger = NULL, seed = NULL, ...) {
  own <- list(eps = need(eps, "eps"), delta = delta, cov_type = cov_type, select = select, seed = seed)
  given <- written(offset, "offset", data)
  exposed <- written(exposure, "exposure", data)
  if (!is.null(given) && !is.null(exposed)) fail("parameter_error", "exposure must be NULL where there is an offset.")
  if (!is.null(exposed)) given <- call("log", exposed)
  glm <- list(name = "dp_poisson", takes_levels = FALSE, takes_offset = TRUE, offset = given)
  run("poisson", formula, data, own, ledger, levels, bounds, by, unit, glm)
}

#' @rdname dp_logit
#' @export
dp_glm <- function(formula, data, family, ...) {
  if (missing(family)) {
    fail("parameter_error", "family must be given: binomial() for a 0/1 response, poisson() for counts, or gaussian(), the default of ",
         "glm(), which is dp_ols().")
  }
  if (is.data.frame(family)) {
    fail("parameter_error", "family must be binomial(), poisson() or gaussian(), not a data frame: here the data come before it, as ",
         "in dp_glm(y ~ x, d, binomial(), eps = 1).")
  }
  estimator <- switch(
    family_name(family),
    "binomial(logit)" = dp_logit, "poisson(log)" = dp_poisson, "gaussian(identity)" = dp_ols,
    fail("parameter_error", "family must be binomial(), poisson() or gaussian(), each with its canonical link, not ",
         family_name(family), ".")
  )
  fit <- estimator(formula, data, ...)
  made <- if (inherits(fit, "dpstats_groups")) group_facts(fit)$call else fit$call
  call <- stored_call(match.call(), "dp_glm", made$formula, parent.frame())
  if (inherits(fit, "dpstats_groups")) attr(fit, "facts")$call <- call else fit$call <- call
  fit
}

# As glm() reads a family: an object, a function or a name.
family_name <- function(family) {
  if (is.character(family) && length(family) == 1 && family %in% c("binomial", "poisson", "gaussian")) {
    family <- getExportedValue("stats", family)
  }
  if (is.function(family)) family <- tryCatch(family(), error = function(e) NULL)
  if (!inherits(family, "family")) return(if (is_path(family) && nchar(family) <= 80) family else "this value")
  paste0(family$family, "(", family$link, ")")
}

# An offset that the call names: a column, or an expression in quotes.
written <- function(text, what, data) {
  text <- tryCatch(text, error = function(e) NA)
  if (is.null(text)) return(NULL)
  if (is_path(text) && !missing(data) && text %in% names(data)) return(as.name(text))
  # a long text may be data that were given in its place
  if (!is_path(text) || nchar(text) > 80) {
    fail("parameter_error", what, " must be NULL, the name of a column or a short expression in quotes.")
  }
  tryCatch(str2lang(text), error = function(e) {
    fail("formula_error", what, " cannot be read: it is the name of a column, or an expression, as \"log(years)\" of an offset and ",
         "\"days / 365\" of an exposure.")
  })
}

#' Methods for private generalised linear models
#'
#' What fits of [dp_logit()] and [dp_poisson()] have beside [the methods of all fits][dpstats-methods]. Everything is
#' computed from released numbers.
#'
#' @param object,x A fit of [dp_logit()] or [dp_poisson()]; of `summary()` also fits of groups.
#' @param newdata A data frame with the columns of the right-hand side of the formula, and of the offset if there is one.
#' @param type,type.predict `"link"`, the linear predictor, or `"response"`, the mean.
#' @param se.fit Whether to return standard errors, too: `NA` where a coefficient that is not determined would be needed.
#' @param interval Only `"none"`: the ends of an interval of the mean are those of `fit +- 1.96 se.fit` with `type = "link"`, mapped.
#' @param level Confidence of the intervals.
#' @param exponentiate Whether estimates and intervals are of `exp(coef)`: odds ratios, rate ratios. Standard errors stay those
#'   of the coefficients, as in \pkg{broom}.
#' @param data Refused: a fit keeps no rows; give `newdata`.
#' @param ... Refused.
#'
#' @details
#' Predictions include the offset, as those of [glm()] do: the new rows need its columns. Set an exposure to 1 there for a
#' rate. (In Python, `predict()` takes it as an argument instead.)
#'
#' `deviance()` and the null deviance of `glance()` and `summary()` were released with noise; the deviance of a row counts up to
#' a limit. Differences between the deviances of two fits are no test. There is no `logLik()`, and so no [AIC()].
#'
#' An average marginal effect is the mean derivative of the mean response by a column. The derivative stands for the difference
#' also where a column is an indicator; a power or a product is a column of its own.
#'
#' @return `predict()`: a numeric vector, or with `se.fit` a list as that of [predict.glm()]. `deviance()`: a number.
#'   `family()`: that of the model. `tidy()`, `glance()` and `augment()`: as [those of all fits][dpstats-tidiers], with
#'   `null.deviance` and `deviance` in `glance()`. `dp_marginal_effects()`: a data frame with a row for each column but
#'   the constant, and the columns of `tidy()`.
#' @name dpstats-glm
#' @examplesIf dp_available() && requireNamespace("ggplot2", quietly = TRUE)
#' fit <- dp_logit(I(price > 5000) ~ depth + table, data = ggplot2::diamonds, eps = 1)
#' tidy(fit, exponentiate = TRUE)
#' predict(fit, data.frame(depth = 62, table = 55:58), type = "response")
#' dp_marginal_effects(fit)
NULL

#' @rdname dpstats-glm
#' @export
predict.dpstats_glm <- function(object, newdata, type = "link", se.fit = FALSE, interval = "none", ...) {
  no_others(...)
  check_type(type, "type")
  check_flag(se.fit, "se.fit")
  if (!identical(interval, "none")) {
    fail("parameter_error", "interval must be \"none\" for this model; map the ends of fit +- 1.96 se.fit, of type = \"link\" and se.fit = TRUE.")
  }
  X <- new_rows(object, newdata)
  link <- linear_values(object, X, newdata)
  if (!is.null(object$offset)) link <- link + evaluate(object$offset, newdata, object$design$bounds)
  inverse <- family.dpstats_glm(object)
  values <- if (type == "link") link else inverse$linkinv(link)
  if (!se.fit) return(values)
  se <- linear_errors(object, X) * if (type == "link") 1 else inverse$mu.eta(link)
  list(fit = values, se.fit = stats::setNames(se, names(values)), residual.scale = 1)
}

check_type <- function(type, what) {
  if (!identical(type, "link") && !identical(type, "response")) {
    fail("parameter_error", what, " must be \"link\" or \"response\".")
  }
}

#' @rdname dpstats-glm
#' @export
family.dpstats_glm <- function(object, ...) {
  no_others(...)
  if (object$link == "logit") stats::binomial() else stats::poisson()
}

#' @rdname dpstats-glm
#' @export
deviance.dpstats_glm <- function(object, ...) {
  no_others(...)
  if (is.null(object$released[["deviance"]])) not_released("deviance", from_rows)
  object$released[["deviance"]]
}

#' @rdname dpstats-glm
#' @export
summary.dpstats_glm <- function(object, level = 1 - object$alpha, exponentiate = FALSE, ...) {
  no_others(...)
  summary <- summary.dpstats(object, level = level)
  if (!check_flag(exponentiate, "exponentiate")) return(summary)
  summary$exponentiate <- TRUE
  summary$coefficients[, 1] <- exp(summary$coefficients[, 1])
  colnames(summary$coefficients)[1] <- "exp(coef)"
  summary$confint <- exp(summary$confint)
  summary
}

#' @rdname dpstats-glm
#' @export
summary.dpstats_glm_groups <- function(object, level = NULL, exponentiate = FALSE, ...) {
  no_others(...)
  summary <- summary.dpstats_groups(object, level = level)
  if (!check_flag(exponentiate, "exponentiate")) return(summary)
  summary$exponentiate <- TRUE
  summary$table <- exponentiated_if(TRUE, summary$table)
  names(summary$table)[names(summary$table) == "estimate"] <- "exp(coef)"
  summary
}

#' @rdname dpstats-glm
#' @export
glance.dpstats_glm <- function(x, ...) {
  no_others(...)
  frame <- glance.dpstats(x)
  of <- function(name) if (is.null(x$released[[name]])) NA_real_ else x$released[[name]]
  frame$null.deviance <- of("null_deviance")
  frame$deviance <- of("deviance")
  frame
}

#' @rdname dpstats-glm
#' @export
augment.dpstats_glm <- function(x, newdata, data, type.predict = "link", ...) {
  no_others(...)
  if (!missing(data) || missing(newdata)) not_released("fitted")
  check_type(type.predict, "type.predict")
  newdata$.fitted <- unname(predict.dpstats_glm(x, newdata, type = type.predict))
  as_tibble_if_possible(newdata)
}

#' @rdname dpstats-glm
#' @export
dp_marginal_effects <- function(x, level = 0.95) {
  if (!inherits(x, "dpstats_glm")) fail("parameter_error", "x must be a fit of dp_logit() or dp_poisson().")
  check_level(level)
  if (is.null(x$slopes)) fail("not_released", "This result has no mean slope, from which marginal effects are computed.")
  beta <- unname(x$coefficients)
  slopes <- x$slopes
  effects <- beta * slopes$mean
  jacobian <- slopes$mean * diag(length(beta)) + outer(beta, slopes$gradient)
  se <- ifelse(determined(x), sqrt(variances(x, jacobian) + beta^2 * slopes$noise^2), NA)
  half <- -stats::qnorm((1 - level) / 2) * se
  frame <- data.frame(
    term = names(x$coefficients), estimate = effects, std.error = se, statistic = effects / se,
    p.value = p_values(effects / se, NULL), conf.low = effects - half, conf.high = effects + half
  )
  as_tibble_if_possible(frame[frame$term != "(Intercept)", , drop = FALSE])
}
