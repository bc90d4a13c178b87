# What methods for lm() compute from the rows, and a private result does not have; nor have fits of groups.

# Sentences of the Python package that are said without Python, too; tests/testthat/test-words.R compares them.
each_row <- "has one entry for each row of private data and was not released"
from_rows <- "is computed from the private rows and was not released"
no_sigma <- "(the residual standard deviation) was not released by this fit"
no_data <- "would hold the private data; a result keeps none"
no_prediction_errors <- paste(
  "This result has no regression function with standard errors to predict from: they must cover sampling and privacy noise."
)

their_covariance <- paste0(from_rows, "; vcov() has the covariance that was, robust or clustered as its cov_type says")

not_released <- function(name, why = each_row) fail("not_released", "'", name, "' ", why, ".")

# As of a list, but for what a fit of lm() holds of each row, by the short names that lm() allows, too: NULL adds up to 0 silently.
#' @export
`$.dpstats` <- function(x, name) {
  if (grepl("^(resid|fitted)", name)) not_released(name)
  unclass(x)[[name, exact = FALSE]]
}

#' @export
residuals.dpstats <- function(object, ...) not_released("residuals")

#' @export
residuals.dpstats_groups <- function(object, ...) not_released("residuals")

#' @export
fitted.dpstats <- function(object, ...) not_released("fitted")

#' @export
fitted.dpstats_groups <- function(object, ...) not_released("fitted")

#' @export
weights.dpstats <- function(object, ...) not_released("weights")

#' @export
weights.dpstats_groups <- function(object, ...) not_released("weights")

#' @importFrom stats hatvalues
#' @export
hatvalues.dpstats <- function(model, ...) not_released("hatvalues")

#' @export
hatvalues.dpstats_groups <- function(model, ...) not_released("hatvalues")

#' @importFrom stats cooks.distance
#' @export
cooks.distance.dpstats <- function(model, ...) not_released("cooks.distance")

#' @export
cooks.distance.dpstats_groups <- function(model, ...) not_released("cooks.distance")

#' @importFrom stats rstandard
#' @export
rstandard.dpstats <- function(model, ...) not_released("rstandard")

#' @export
rstandard.dpstats_groups <- function(model, ...) not_released("rstandard")

#' @importFrom stats rstudent
#' @export
rstudent.dpstats <- function(model, ...) not_released("rstudent")

#' @export
rstudent.dpstats_groups <- function(model, ...) not_released("rstudent")

#' @importFrom stats influence
#' @export
influence.dpstats <- function(model, ...) not_released("influence")

#' @export
influence.dpstats_groups <- function(model, ...) not_released("influence")

#' @export
logLik.dpstats <- function(object, ...) not_released("logLik", paste("(and so AIC and BIC)", from_rows))

#' @export
logLik.dpstats_groups <- function(object, ...) not_released("logLik", paste("(and so AIC and BIC)", from_rows))

#' @export
deviance.dpstats <- function(object, ...) not_released("deviance", from_rows)

#' @export
deviance.dpstats_groups <- function(object, ...) not_released("deviance", from_rows)

#' @export
extractAIC.dpstats <- function(fit, scale, k = 2, ...) not_released("extractAIC", from_rows)

#' @export
extractAIC.dpstats_groups <- function(fit, scale, k = 2, ...) not_released("extractAIC", from_rows)

#' @export
model.frame.dpstats <- function(formula, ...) not_released("model.frame", no_data)

#' @export
model.frame.dpstats_groups <- function(formula, ...) not_released("model.frame", no_data)

#' @importFrom stats case.names
#' @export
case.names.dpstats <- function(object, ...) not_released("case.names")

#' @export
case.names.dpstats_groups <- function(object, ...) not_released("case.names")

#' @export
model.matrix.dpstats <- function(object, ...) not_released("model.matrix", no_data)

#' @export
model.matrix.dpstats_groups <- function(object, ...) not_released("model.matrix", no_data)

# Of the package sandwich, whose functions make a covariance out of the rows.

#' @exportS3Method sandwich::vcovHC
vcovHC.dpstats <- function(x, ...) not_released("vcovHC", their_covariance)

#' @exportS3Method sandwich::vcovHC
vcovHC.dpstats_groups <- function(x, ...) not_released("vcovHC", their_covariance)

#' @exportS3Method sandwich::estfun
estfun.dpstats <- function(x, ...) not_released("estfun", their_covariance)

#' @exportS3Method sandwich::estfun
estfun.dpstats_groups <- function(x, ...) not_released("estfun", their_covariance)
