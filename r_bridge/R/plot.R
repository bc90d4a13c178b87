#' Plot the coefficients of a private fit
#'
#' Points with their intervals, in base graphics.
#'
#' @param x A fit, from [dp_ols()] and its kin.
#' @param terms Names of coefficients to show; by default all but the intercept.
#' @param intercept Whether to show the intercept, too.
#' @param level Confidence of the intervals; see [confint()][dpstats-methods].
#' @param standardize Divide each coefficient by its standard error, which puts all on the scale of the z statistic.
#' @param xlab,... Passed on to [graphics::plot.default()], of whose arguments or [graphics::par()]'s they must be.
#'
#' @details A coefficient without an interval has an open symbol, and "n.d." (not determined) if others have one.
#'   Coefficients keep the units of their columns, so that a large one can hide the others: name the ones to show, or
#'   standardize.
#' @return The fit, invisibly.
#' @examplesIf dp_available() && requireNamespace("ggplot2", quietly = TRUE)
#' fit <- dp_ols(price ~ carat + clarity, data = ggplot2::diamonds, eps = 1)
#' plot(fit)
#' @export
plot.dpstats <- function(x, terms = NULL, intercept = FALSE, level = 1 - x$alpha, standardize = FALSE,
                         xlab = if (standardize) "Coefficient / standard error" else "Coefficient", ...) {
  if (!all(given_names(...) %in% c(names(formals(graphics::plot.default)), names(graphics::par())))) no_others(...)
  all <- names(x$coefficients)
  shown <- if (is.null(terms)) all[intercept | all != "(Intercept)"] else chosen(terms, all)
  if (!length(shown)) shown <- all
  unit <- if (standardize) standard_errors(x)[shown] else rep(1, length(shown))
  values <- x$coefficients[shown] / unit
  ends <- confint.dpstats(x, level = level)[shown, , drop = FALSE] / unit
  has <- is.finite(ends[, 1]) & is.finite(ends[, 2])
  y <- rev(seq_along(shown))
  labels <- paste0(shown, ifelse(determined(x)[match(shown, all)], "", " (n.d.)"))
  margins <- graphics::par("mar")
  on.exit(graphics::par(mar = margins))
  graphics::par(mar = c(4.1, min(18, 2 + 0.6 * max(nchar(labels))), 2.1, 1.1))
  graphics::plot.default(
    values, y, xlim = range(values[is.finite(values)], ends[has, ], 0), ylim = c(0.5, length(shown) + 0.5), yaxt = "n",
    ylab = "", xlab = xlab, pch = ifelse(has, 19, 1), ...
  )
  graphics::axis(2, at = y, labels = labels, las = 1)
  graphics::abline(v = 0, lty = 3)
  graphics::segments(ends[has, 1], y[has], ends[has, 2], y[has])
  invisible(x)
}
