#' Plot the coefficients of a private fit
#'
#' Points with their intervals, in base graphics.
#'
#' @param x A fit, from [dp_ols()] and its kin.
#' @param terms Names of coefficients, or of terms of the formula, to show; by default all but the intercept.
#' @param intercept Whether to show the intercept, too.
#' @param level Confidence of the intervals; see [confint()][dpstats-methods].
#' @param standardize Divide each coefficient by its standard error, which puts all on the scale of the z statistic.
#' @param xlab,ylab Labels of the axes.
#' @param main,sub What stands above and below the plot: by default the method and its guarantee, and what the intervals cover.
#' @param xlim,ylim Limits of the axes: by default they hold the intervals and, unless the formula is `y ~ 1`, 0, and all
#'   coefficients, of which the last is at 1.
#' @param pch Symbols of the points, in the order of the coefficients; by default open where there is no interval.
#' @param ... Passed on to [graphics::plot.default()], of whose arguments or [graphics::par()]'s they must be. The axis of the names
#'   and the margins are the plot's own.
#'
#' @details A coefficient without an interval has an open symbol, and "n.d." (not determined) if others have one.
#'   Coefficients keep the units of their columns, so that a large one can hide the others: name the ones to show, or
#'   standardize. Names that are too long for the plot are shortened.
#' @return The fit, invisibly.
#' @examplesIf dp_available() && requireNamespace("ggplot2", quietly = TRUE)
#' fit <- dp_ols(price ~ carat + clarity, data = ggplot2::diamonds, eps = 1)
#' plot(fit)
#' @export
plot.dpstats <- function(x, terms = NULL, intercept = FALSE, level = 1 - x$alpha, standardize = FALSE, ...,
                         xlab = if (standardize) "Coefficient / standard error" else "Coefficient", ylab = "",
                         main = NULL, sub = NULL, xlim = NULL, ylim = NULL, pch = NULL) {
  taken <- c(names(formals(graphics::plot.default)), names(graphics::par(no.readonly = TRUE)))
  if (!all(given_names(...) %in% setdiff(taken, c("y", "yaxt", "mar", "mai", "...")))) no_others(...)
  all <- names(x$coefficients)
  # of a term all of its coefficients, unless a coefficient has that name
  terms <- unlist(lapply(terms, function(term) if (term %in% setdiff(x$term_of, all)) all[x$term_of %in% term] else term))
  shown <- if (is.null(terms)) all[intercept | all != "(Intercept)"] else chosen(terms, all, "terms")
  if (!length(shown)) shown <- all
  unit <- if (standardize) standard_errors(x)[shown] else rep(1, length(shown))
  ends <- confint.dpstats(x, level = level)[shown, , drop = FALSE] / unit
  if (is.null(main)) main <- paste(plot_title(x$method, x$guarantee), collapse = "\n")
  if (is.null(sub)) sub <- plot_coverage(x, level)
  margins <- graphics::par("mar")
  on.exit(graphics::par(mar = margins))
  graphics::par(mar = c(5.1, 4.1, 4.1, 1.1))
  draw_intervals(
    x$coefficients[shown] / unit, ends, shown, !determined(x)[match(shown, all)], xlab = xlab, ylab = ylab, main = main, sub = sub,
    xlim = xlim, ylim = ylim, pch = pch, effects = standardize || !of_location(x), ...
  )
  invisible(x)
}

plot_title <- function(method, guarantee) {
  number <- function(value) format(value, digits = 6)
  budget <- paste0("eps = ", number(guarantee$eps), ", delta = ", number(guarantee$delta))
  c(method, budget, if (guarantee$seeded) "SEEDED: protects nobody")
}

plot_coverage <- function(fit, level) {
  if (fit$covers %in% c(covers_both, covers_noise)) paste0(format(100 * level), "% intervals cover ", fit$covers)
}

# Whether the estimates are of where values lie, of which 0 is no more special than any other.
of_location <- function(fit) identical(fit$formula[[length(fit$formula)]], 1)

# Points and their intervals, one below the other, in a left margin as wide as the names. The axis of effects holds 0.
draw_intervals <- function(values, ends, names, lost, effects = TRUE, xlim = NULL, ylim = NULL, ylab = "", pch = NULL, ...) {
  has <- is.finite(ends[, 1]) & is.finite(ends[, 2])
  y <- rev(seq_along(values))
  labels <- shortened(names, ifelse(lost, " (n.d.)", ""), 0.4 * graphics::par("fin")[1])
  left <- lines_of(labels) + if (identical(ylab, "")) 0 else 1.5
  kept <- graphics::par("mar")
  graphics::par(mar = replace(kept, 2, left))
  if (is.null(xlim)) xlim <- range(if (effects || !any(is.finite(values))) 0, values, ends[has, ], finite = TRUE)
  graphics::plot.default(
    values, y, xlim = xlim,
    ylim = if (is.null(ylim)) c(0.5, length(values) + 0.5) else ylim, yaxt = "n", ylab = "",
    pch = if (is.null(pch)) ifelse(has, 19, 1) else pch, ...
  )
  if (!identical(ylab, "")) graphics::title(ylab = ylab, line = left - 1.2)
  graphics::axis(2, at = y, labels = labels, las = 1)
  graphics::abline(v = 0, lty = 3)
  graphics::segments(ends[has, 1], y[has], ends[has, 2], y[has])
}

# The lines of a margin beside an axis with such labels.
lines_of <- function(labels) max(inches_of(labels)) / graphics::par("csi") + 1.7

inches_of <- function(text) graphics::strwidth(text, "inches", cex = graphics::par("cex.axis"))

# Names with what stands after them in at most so many inches, still distinct if they were. A long one loses its middle: the
# end tells levels apart.
shortened <- function(names, after, room) {
  fit <- function(i, mark = "") {
    text <- names[i]
    after <- paste0(mark, after[i])
    kept <- nchar(text)
    while (kept > 2 && inches_of(paste0(text, after)) > room) {
      kept <- kept - 1
      last <- (3 * kept) %/% 5
      text <- paste0(substr(names[i], 1, kept - last), "..", substring(names[i], nchar(names[i]) - last + 1))
    }
    paste0(text, after)
  }
  after <- rep_len(after, length(names))
  short <- vapply(seq_along(names), fit, "")
  repeated <- function(x) x %in% x[duplicated(x)]
  alike <- which(repeated(short) & !repeated(names))
  short[alike] <- vapply(alike, function(i) fit(i, paste0("..", i)), "")
  short
}
