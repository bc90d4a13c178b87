# Methods for the generics of broom.

#' @importFrom generics tidy
#' @export
generics::tidy

#' @importFrom generics glance
#' @export
generics::glance

#' @importFrom generics augment
#' @export
generics::augment

#' Tidy a private fit
#'
#' Data frames with the columns of \pkg{broom} (tibbles where \pkg{tibble} is installed).
#'
#' @param x A fit, from [dp_ols()] and its kin, a `by =` collection of fits, or a selection of terms.
#' @param conf.int Whether to add the columns `conf.low` and `conf.high`.
#' @param conf.level Their confidence; see [confint()][dpstats-methods].
#' @param exponentiate Whether estimates and intervals are of `exp(coef)`: odds ratios, rate ratios, ratios of a response `log(y)`.
#'   Standard errors stay those of the coefficients, as in \pkg{broom}.
#' @param newdata A data frame. Required: there are no private rows to augment.
#' @param data Refused: a fit keeps no rows; give `newdata`.
#' @param ... Refused.
#'
#' @return `tidy()`: a row for each coefficient, with `term`, `estimate`, `std.error`, `statistic`, `p.value`, and
#'   `limited.low`, `limited.high` where an estimate is about values limited to an interval; a
#'   collection of fits has the column of the groups in front. `glance()`: one row with `method`, `r.squared`, `sigma`,
#'   `nobs` (the public number of rows, else the released noisy one), `eps`, `delta`, `neighbours`, `kind` and `seeded`;
#'   `NA` for what was not released. `augment()`: `newdata` with the predictions as `.fitted`.
#' @name dpstats-tidiers
#' @examplesIf dp_available() && requireNamespace("ggplot2", quietly = TRUE)
#' fit <- dp_ols(price ~ carat + clarity, data = ggplot2::diamonds, eps = 1)
#' tidy(fit)
#' glance(fit)
#' augment(fit, newdata = head(ggplot2::diamonds))
NULL

#' @rdname dpstats-tidiers
#' @export
tidy.dpstats <- function(x, conf.int = TRUE, conf.level = 1 - x$alpha, exponentiate = FALSE, ...) {
  no_others(...)
  as_tibble_if_possible(exponentiated_if(exponentiate, tidy_frame(x, conf.int, conf.level)))
}

exponentiated_if <- function(exponentiate, frame) {
  columns <- if (check_flag(exponentiate, "exponentiate")) intersect(c("estimate", "conf.low", "conf.high"), names(frame))
  frame[columns] <- lapply(frame[columns], exp)
  frame
}

tidy_frame <- function(x, conf.int, conf.level) {
  check_flag(conf.int, "conf.int")
  statistics <- unname(test_statistics(x))
  frame <- data.frame(
    term = names(x$coefficients),
    estimate = unname(shown_coefficients(x)),
    std.error = unname(standard_errors(x)),
    statistic = statistics,
    p.value = p_values(statistics, x$df)
  )
  if (conf.int) {
    check_level(conf.level, "conf.level")
    ends <- unname(confint.dpstats(x, level = conf.level))
    frame$conf.low <- ends[, 1]
    frame$conf.high <- ends[, 2]
  }
  if (!is.null(x$limited)) frame[c("limited.low", "limited.high")] <- x$limited[c("low", "high")]
  frame
}

#' @rdname dpstats-tidiers
#' @export
glance.dpstats <- function(x, ...) {
  no_others(...)
  released <- function(...) {
    values <- x$released[c(...)]
    values <- values[!vapply(values, is.null, NA)]
    if (length(values)) values[[1]] else NA_real_
  }
  as_tibble_if_possible(data.frame(
    method = x$method, r.squared = released("rsquared"), sigma = released("sigma"), nobs = released("nobs", "n"),
    glance_guarantee(x$guarantee)
  ))
}

glance_guarantee <- function(guarantee) {
  data.frame(guarantee[c("eps", "delta", "neighbours", "kind", "seeded")])
}

#' @rdname dpstats-tidiers
#' @export
augment.dpstats <- function(x, newdata, data, ...) {
  no_others(...)
  if (!missing(data) || missing(newdata)) not_released("fitted")
  newdata$.fitted <- unname(predict.dpstats(x, newdata))
  as_tibble_if_possible(newdata)
}

as_tibble_if_possible <- function(frame) {
  if (requireNamespace("tibble", quietly = TRUE)) tibble::as_tibble(frame) else frame
}
