# Private diagnostics of a released fit, on its rows: a further release.

#' Diagnose a private fit
#'
#' A further private release about the rows of a fit: what of the model these data contradict. Of a linear fit Ramsey's RESET, a
#' test of constant error variance, one of normal errors, residuals by tenths of the prediction and by fifths of the columns, a
#' normal Q-Q plot, and shares of rows of high leverage (residuals in lumps, as of whole numbers, are rejected as normal errors
#' where rows are many); of [dp_logit()] the ROC curve, its area, and calibration by tenths; of
#' [dp_poisson()] a rootogram and a test of the dispersion. All residuals count alike, also of a fit with `weights`, about whose line
#' their mean need not be 0.
#'
#' @param fit A fit of a regression with a constant. It may come from [readRDS()].
#' @param data The rows of the fit, or others with the same columns: a data frame (or list of columns), or the path of a file.
#' @param eps,delta The budget of this release; it adds to that of the fit.
#' @param ledger,seed As of [dp_ols()].
#' @param x,object A diagnosis.
#' @param ... Refused.
#'
#' @section Privacy:
#' `(eps, delta)`-differential privacy, for the neighbours and the unit of the fit. What the fit holds is public here. The proof is
#' in the Python package, in `docs/privacy/diagnose.md`.
#'
#' @return A list of class `"dp_diagnosis"` with `kind` (`"linear"`, `"logit"` or `"counts"`), the data frame `tests` (`test`,
#'   `statistic`, which is chi-squared with `df` degrees of freedom, and `p.value`), the list `tables` (`fitted`, `qq`,
#'   `leverage`, and `columns` with a table for each; or `calibration` and `roc`; or `rootogram`), `facts` (the noisy number of
#'   `rows`, the area `auc` and its standard error `auc_se`) and the `guarantee`. `tidy()` gives `tests`. `plot()` draws one
#'   panel for each table, and returns the diagnosis invisibly. `NA` is what the release does not determine.
#' @examplesIf dp_available() && requireNamespace("ggplot2", quietly = TRUE)
#' fit <- dp_ols(price ~ carat, data = ggplot2::diamonds, eps = 1)
#' found <- diagnose(fit, ggplot2::diamonds, eps = 1)
#' found
#' plot(found)
#' @export
diagnose <- function(fit, ...) UseMethod("diagnose")

#' @export
diagnose.default <- function(fit, ...) fail("parameter_error", "fit must be a fit of a regression of this package.")

#' @export
diagnose.dpstats_groups <- function(fit, ...) {
  fail("parameter_error", "fit must be the fit of one group, such as fits[[\"A\"]], with the rows of that group.")
}

#' @rdname diagnose
#' @export
diagnose.dpstats <- function(fit, data, eps, delta = 1e-6, ledger = NULL, seed = NULL, ...) {
  no_others(...)
  options <- for_python(list(eps = need(eps, "eps"), delta = delta, seed = seed))
  data <- check_data(data)
  if (is.null(fit$design)) fail("not_released", "This result has no regression function, so it has no residuals.")
  if (!"(Intercept)" %in% names(fit$coefficients) || length(fit$coefficients) < 2) {
    fail("parameter_error", "fit must be of a regression with a constant and at least one column.")
  }
  text <- saved_text(fit)
  if (!is_path(data)) data <- columns_of_fit(fit, data, unwrap(explore()$saved_columns(text)))
  names <- stats::setNames(as.list(names(fit$coefficients)), fit$saved$names)
  as_diagnosis(unwrap(explore()$diagnose(text, data, options, as_ledger(ledger), deparse1(fit$formula), names)))
}

# The release as Python wrote it.
saved_text <- function(fit) {
  if (is.null(fit$saved)) {
    fail("parameter_error", "this fit comes from an earlier version of the package, which did not keep what is needed here.")
  }
  fit$saved$text
}

# The columns that a fit reads, as it read them: kinds and levels are those of the fit.
columns_of_fit <- function(fit, data, facts) {
  sent <- list()
  written <- written_levels(fit)
  for (column in facts) {
    name <- column$name
    levels <- unlist(column$levels)
    x <- column_of(data, name)
    if (!is.null(levels)) {
      check_levels(levels, name, data)
      sent[[name]] <- cross_column(x, levels)
    } else if (column$kind == "truth") {
      if (kind_of(x, name) != "truth") fail("schema_error", "column '", name, "' must be logical, as in the fit.")
      sent[[name]] <- cross_column(x)
    } else if (name %in% names(written)) {
      # levels that the formula writes out belong to the formula
      kind <- kind_of(x, name)
      sent[[name]] <- cross_column(x, if (kind == "text") written[[name]] else if (kind == "factor") levels_of(x))
    } else {
      sent[[name]] <- cross_column(number_column(name, data, NULL))
    }
  }
  for (name in setdiff(all.vars(fit$offset), c(names(sent), "pi"))) {
    sent[[name]] <- cross_column(number_column(name, data, NULL))
  }
  with_unit(sent, data, fit$guarantee$unit)
}

# Levels that the formula of a fit writes out, by column: those of the right-hand side, and of the response.
written_levels <- function(fit) {
  parts <- unlist(lapply(fit$design$blocks, function(block) block$parts), recursive = FALSE)
  parts <- Filter(function(part) part$kind == "levels" && is.name(part$expr), parts)
  found <- stats::setNames(
    lapply(parts, function(part) enc2utf8(as.character(part$levels))), vapply(parts, function(part) as.character(part$expr), "")
  )
  response <- str2lang(fit$response)
  if (is_call(response, c("factor", "as.factor")) && is.name(response[[2]])) {
    found[[as.character(response[[2]])]] <- enc2utf8(as.character(eval_levels(response)))
  }
  found
}

as_diagnosis <- function(answer) {
  tables <- lapply(answer$tables, as_frame)
  if (answer$kind == "linear") tables$columns <- lapply(answer$columns, as_frame)
  facts <- lapply(answer$facts, as_numbers)
  structure(
    list(
      kind = answer$kind, tests = as_frame(answer$tests), tables = tables,
      facts = lapply(facts, function(v) if (is.nan(v)) NA_real_ else v), guarantee = as_guarantee(answer$guarantee),
      text = answer$text
    ),
    class = "dp_diagnosis"
  )
}

#' @rdname diagnose
#' @export
print.dp_diagnosis <- function(x, ...) {
  no_others(...)
  cat(x$text, "\n", sep = "")
  invisible(x)
}

#' @rdname diagnose
#' @export
summary.dp_diagnosis <- function(object, ...) {
  no_others(...)
  object
}

#' @rdname diagnose
#' @export
tidy.dp_diagnosis <- function(x, ...) {
  no_others(...)
  as_tibble_if_possible(x$tests)
}

#' @rdname diagnose
#' @export
plot.dp_diagnosis <- function(x, ...) {
  no_others(...)
  tables <- x$tables
  if (x$kind == "logit") {
    draw_panels(list(function() draw_roc(x), function() draw_calibration(tables$calibration)))
  } else if (x$kind == "counts") {
    draw_panels(list(function() draw_rootogram(tables$rootogram)))
  } else {
    panels <- c(
      function() draw_binned(tables$fitted, "Prediction"),
      function() draw_qq(tables$qq),
      function() draw_spread(tables$fitted, x$facts$spread),
      lapply(names(tables$columns), function(name) function() draw_binned(tables$columns[[name]], name)),
      if (!length(tables$columns)) function() draw_leverage(tables$leverage)
    )
    draw_panels(panels, if (length(panels) > 4) 3 else 2)
  }
  invisible(x)
}

# -- panels --------------------------------------------------------------------------------------------------

# Where bins are drawn: between their ends, and as far beyond the outer ones as the nearest bin reaches.
middles <- function(table) {
  edges <- table$low[-1]
  k <- length(edges)
  if (k < 2) return(seq_along(table$low))
  inner <- (edges[-1] + edges[-k]) / 2
  c(2 * edges[1] - inner[1], inner, 2 * edges[k] - inner[k - 1])
}

# Points with their intervals, and a dashed line for comparison.
draw_points <- function(x, y, low, high, xlab, ylab, line = NULL, type = "b", xlim = range(x, na.rm = TRUE), ylim = NULL) {
  if (is.null(ylim)) ylim <- range(y, low, high, line, na.rm = TRUE)
  graphics::plot.default(x, y, type = type, pch = 19, xlim = xlim, ylim = ylim, xlab = xlab, ylab = ylab)
  if (!is.null(line)) graphics::abline(h = line, lty = 2, col = "grey50")
  graphics::segments(x, low, x, high, lwd = 1.5)
}

draw_binned <- function(table, name) {
  draw_points(middles(table), table$mean, table$conf.low, table$conf.high, name, "Mean residual", line = 0)
}

draw_spread <- function(table, usual) {
  half <- 1.96 * table$spread.error
  ylim <- c(0, max(usual, table$spread + half, na.rm = TRUE))
  draw_points(
    middles(table), table$spread, table$spread - half, table$spread + half, "Prediction",
    "Root mean square residual", line = usual, ylim = ylim
  )
}

draw_qq <- function(table) {
  table <- table[!is.na(table$normal), ]
  ends <- range(table$normal, table$conf.low, table$conf.high, na.rm = TRUE)
  graphics::plot.default(
    table$normal, table$residual, pch = 19, xlim = ends, xlab = "Normal quantile", ylab = "Residual / sigma"
  )
  graphics::abline(0, 1, lty = 2, col = "grey50")
  graphics::segments(table$conf.low, table$residual, table$conf.high, table$residual, lwd = 1.5)
}

draw_leverage <- function(table) {
  half <- 1.96 * table$std.error
  draw_points(
    table$times, table$share, table$share - half, table$share + half, "Leverage, times its mean", "Share of rows beyond",
    ylim = c(0, max(table$share + half))
  )
}

draw_roc <- function(x) {
  roc <- x$tables$roc
  graphics::plot.default(
    roc$fpr, roc$tpr, type = "b", pch = 19, xlim = 0:1, ylim = 0:1, xlab = "False positive rate", ylab = "True positive rate"
  )
  graphics::abline(0, 1, lty = 2, col = "grey50")
  if (!is.na(x$facts$auc)) {
    graphics::title(sprintf("Area %.3f (std. error %.3f)", x$facts$auc, x$facts$auc_se), font.main = 1, cex.main = 1)
  }
}

draw_calibration <- function(table) {
  draw_points(
    table$predicted, table$observed, table$conf.low, table$conf.high, "Predicted share", "Observed share", type = "p",
    xlim = 0:1, ylim = 0:1
  )
  graphics::abline(0, 1, lty = 2, col = "grey50")
}

# Bars hang from the square roots of the expected numbers of rows.
draw_rootogram <- function(table) {
  x <- seq_len(nrow(table))
  expected <- sqrt(pmax(table$expected, 0))
  low <- expected - sqrt(pmax(table$observed, 0))
  half <- 1.96 * table$std.error / (2 * sqrt(pmax(table$expected, 1)))
  shown <- table$expected > 2 * table$std.error
  graphics::plot.default(
    range(x) + c(-0.5, 0.5), range(low, expected, -half[shown], half[shown], 0), type = "n", xaxt = "n", xlab = "Count",
    ylab = "Square root of rows"
  )
  graphics::rect(x - 0.4, low, x + 0.4, expected, col = "grey85", border = NA)
  graphics::lines(x, expected, type = "b", pch = 19, col = 2)
  graphics::segments(x[shown], -half[shown], x[shown], half[shown])
  graphics::abline(h = 0)
  graphics::axis(1, at = x, labels = table$count)
}
