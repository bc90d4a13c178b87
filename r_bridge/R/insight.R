# What insight and parameters have to be told: they know by name which classes are models.

# insight finds data by the call of a fit, for packages that would then print what they compute from private rows.
#' @exportS3Method insight::get_data
get_data.dpstats <- function(x, ...) not_released("get_data", no_data)

#' @exportS3Method insight::get_statistic
get_statistic.dpstats <- function(x, ...) {
  statistics <- test_statistics(x)
  frame <- data.frame(Parameter = names(statistics), Statistic = unname(statistics))
  structure(frame, statistic = if (is.null(x$df)) "z-statistic" else "t-statistic")
}

#' @exportS3Method insight::get_df
get_df.dpstats <- function(x, ...) if (is.null(x$df)) Inf else x$df

#' @rdname dpstats-tidiers
#' @param model A fit.
#' @param ci Confidence of the intervals.
#' @param verbose Whether \pkg{parameters} may say more; there is no more to say.
#' @exportS3Method parameters::model_parameters
model_parameters.dpstats <- function(model, ci = 1 - model$alpha, exponentiate = FALSE, verbose = TRUE, ...) {
  no_others(...)
  table <- exponentiated_if(exponentiate, tidy_frame(model, TRUE, ci))
  frame <- data.frame(
    Parameter = table$term, Coefficient = table$estimate, SE = table$std.error, CI = ci, CI_low = table$conf.low,
    CI_high = table$conf.high, Statistic = table$statistic, df_error = if (is.null(model$df)) Inf else model$df, p = table$p.value
  )
  names(frame)[7] <- if (is.null(model$df)) "z" else "t"
  structure(
    frame, ci = ci, exponentiate = exponentiate, digits = 2, ci_digits = 2, p_digits = 3, footer_digits = 3,
    model_class = class(model), pretty_names = stats::setNames(frame$Parameter, frame$Parameter),
    coefficient_name = if (exponentiate) "exp(Coefficient)" else "Coefficient",
    class = c("parameters_model", "see_parameters_model", "data.frame")
  )
}
