# What methods for lm() compute from the rows, and a private result does not have.

not_released <- function(what, why = "have one entry for each row of private data and were not released") {
  fail("not_released", what, " ", why, ".")
}

from_rows <- "is computed from the private rows and was not released"

#' @export
residuals.dpstats <- function(object, ...) not_released("residuals")

#' @export
fitted.dpstats <- function(object, ...) not_released("fitted values")

#' @export
weights.dpstats <- function(object, ...) not_released("weights")

#' @importFrom stats hatvalues
#' @export
hatvalues.dpstats <- function(model, ...) not_released("hat values")

#' @importFrom stats cooks.distance
#' @export
cooks.distance.dpstats <- function(model, ...) not_released("Cook's distances")

#' @importFrom stats rstandard
#' @export
rstandard.dpstats <- function(model, ...) not_released("residuals")

#' @importFrom stats rstudent
#' @export
rstudent.dpstats <- function(model, ...) not_released("residuals")

#' @importFrom stats influence
#' @export
influence.dpstats <- function(model, ...) not_released("influence measures")

#' @export
logLik.dpstats <- function(object, ...) not_released("the likelihood", from_rows)

#' @export
deviance.dpstats <- function(object, ...) not_released("the deviance", from_rows)

#' @export
extractAIC.dpstats <- function(fit, scale, k = 2, ...) not_released("AIC", from_rows)

#' @export
anova.dpstats <- function(object, ...) not_released("the table of sums of squares", from_rows)

#' @export
model.frame.dpstats <- function(formula, ...) {
  not_released("the model frame", "would hold the private data; a result keeps none")
}

#' @export
model.matrix.dpstats <- function(object, ...) {
  not_released("the model matrix", "would hold the private data; a result keeps none")
}
