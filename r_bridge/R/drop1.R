# Which terms could be dropped, and none that could be added.

#' Tests for dropping terms of a private fit
#'
#' `drop1()`: Wald tests of the terms that can be dropped without one that contains them, those of [anova()][anova.dpstats]: from
#' the released estimates and their covariance, at no privacy cost. A term within an interaction that is in the model is left out,
#' as by [stats::drop1()].
#'
#' @param object A fit, from [dp_ols()] and its kin.
#' @param scope The terms to test: a formula of them, such as `~ x + g`, or their labels. By default all that can be dropped.
#' @param test Only `"Wald"`. F and likelihood-ratio tests and AIC are computed from the rows.
#' @param ... Refused.
#'
#' @details
#' There is no `add1()`, nor [step()] or another choice by AIC: each would look at the rows again. `update(fit, . ~ . + x)` is a new
#' release; [dp_select_features()] chooses terms privately.
#'
#' @return A data frame of classes `"anova"` and `"data.frame"` with a row for each term, as of [anova()][anova.dpstats].
#' @importFrom stats drop1
#' @examplesIf dp_available() && requireNamespace("ggplot2", quietly = TRUE)
#' fit <- dp_ols(price ~ carat * cut + table, data = ggplot2::diamonds, eps = 1)
#' drop1(fit, test = "Wald")
#' @export
drop1.dpstats <- function(object, scope, test = "Wald", ...) {
  if (any(c("k", "scale") %in% given_names(...)) || !is_one_of(test, "Wald")) fail("not_released", no_aic)
  no_others(...)
  layout <- terms.dpstats(object)
  labels <- attr(layout, "term.labels")
  if (missing(scope)) {
    scope <- stats::drop.scope(layout)
  } else if (inherits(scope, "formula")) {
    scope <- attr(stats::terms(stats::update.formula(stats::formula(layout), scope)), "term.labels")
  }
  if (!is.character(scope) || !all(scope %in% labels)) {
    fail("parameter_error", "scope must name terms among ", paste(labels, collapse = ", "), ".")
  }
  tests_of_terms(object, intersect(labels, scope), "Wald tests for dropping terms")
}

no_aic <- paste(
  "drop1() has test = \"Wald\" alone: AIC, F and likelihood-ratio tests are computed from the private rows. The Wald tests are",
  "from the released covariance, which holds the privacy noise."
)

#' @importFrom stats add1
#' @export
add1.dpstats <- function(object, scope, ...) no_add1()

#' @export
add1.dpstats_groups <- function(object, scope, ...) no_add1()

no_add1 <- function() {
  fail("not_released", "'add1' would need the private rows. update(fit, . ~ . + x) is a new release, which costs its eps, and its ",
       "anova() tests x; dp_select_features() chooses terms privately.")
}
