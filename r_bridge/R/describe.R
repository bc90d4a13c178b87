# A private first look at a table.

#' Describe a table privately
#'
#' One table of a data set for one budget: the number of rows; of every column of numbers the missing values, mean, standard
#' deviation and quartiles; of every factor the number of rows of each level. No bounds of the data to guess.
#'
#' @inheritParams dp_ols
#' @param columns Names of the columns to describe; by default all that can be: numbers, logical columns, and columns with
#'   declared levels. The budget is divided among them, so that fewer are described better.
#' @param correlation Whether to release Pearson's correlations of the columns of numbers, too, over the rows in which none is
#'   missing. They take a third of the budget.
#' @param by Name of a column with declared levels: one description for each group, each with the whole budget.
#' @param unit Name of a column such as `"patient_id"`: protect all rows of one of its values, and not one row alone.
#' @param x,object A description.
#' @param row.names,stringsAsFactors As of [as.data.frame()].
#' @param optional Ignored: [data.frame()] sets it.
#' @param exact Only `TRUE`: groups are taken by their whole names.
#' @param ... Refused.
#'
#' @section Privacy:
#' `(eps, delta)`-differential privacy; neighbouring data sets differ by one record added or removed. Levels of factors are taken
#' as public, as everywhere here. The proof is in the Python package, in `docs/privacy/describe.md`.
#'
#' @section Intervals:
#' Those of means, standard deviations, quartiles and shares of levels cover sampling and privacy noise. Numbers of rows and of missing values are
#' about the table itself, and their intervals cover privacy noise. A standard deviation that noise
#' hides is `NA`, and the upper end of its interval in print (`<0.5`). What the release does not determine is `NA`, and `n.d.` in print.
#'
#' @return A list of class `"dp_description"` with the data frames `numbers` (a row for each column of numbers), `levels` (a row for
#'   each level) and `statistics`, the matrices `correlation` and `correlation.se` (`NULL` if they were not asked for) and
#'   the `guarantee`. `tidy()` and `as.data.frame()` give `statistics`: `column`, `statistic`, `estimate`, `std.error`, `conf.low`,
#'   `conf.high`, with intervals of 95%, and `limited.low`, `limited.high` where means are those of limited values. `plot()`
#'   draws histograms and shares of levels from the released numbers, and returns the description invisibly. With `by`, a list
#'   of class `"dp_descriptions"`: `x[["A"]]` is the description of a group.
#' @examplesIf dp_available() && requireNamespace("ggplot2", quietly = TRUE)
#' table <- dp_describe(ggplot2::diamonds, c("price", "carat", "cut"), eps = 1)
#' table
#' tidy(table)
#' plot(table)
#' @export
dp_describe <- function(data, columns = NULL, eps, delta = 1e-6, correlation = FALSE, bounds = NULL, levels = NULL, by = NULL,
                        unit = NULL, ledger = NULL, seed = NULL, ...) {
  no_more(...)
  data <- check_data(data)
  levels <- check_declared(levels, "levels", "list(cut = c(\"Fair\", \"Good\"))", data)
  bounds <- check_declared(bounds, "bounds", "list(age = c(0, 120))", data)
  by <- check_column(by, "by")
  unit <- check_column(unit, "unit")
  check_flag(correlation, "correlation")
  options <- for_python(list(
    eps = need(eps, "eps"), delta = delta, correlation = correlation, by = by, unit = unit, seed = seed
  ))
  columns <- check_columns(columns, c(by, unit))
  if (!is.null(by)) check_groups(by, data, levels)
  sent <- data
  skipped <- character()
  if (!is_path(data)) {
    used <- if (is.null(columns)) describable(data, c(by, unit), levels) else columns
    if (is.null(columns)) skipped <- setdiff(names(data), c(used, by, unit))
    for (name in used) check_describable(column_of(data, name), name, levels)
    bounds <- bounds[names(bounds) %in% used]
    sent <- lapply(stats::setNames(nm = c(used, by)), function(name) {
      x <- column_of(data, name)
      cross_column(x, column_levels(x, name, levels, NULL))
    })
    sent <- with_unit(sent, data, unit)
  }
  options$bounds <- if (length(bounds)) lapply(bounds, as.list)
  options$levels <- if (is_path(data) && length(levels)) lapply(levels, as.list)
  answer <- unwrap(explore()$describe(
    sent, if (!is.null(columns)) as.list(columns), options, as_ledger(ledger), as.list(skipped)
  ))
  for (about in about_columns(data, setdiff(names(sent), unit))) message(about)
  if (is.null(by)) return(as_description(answer))
  as_descriptions(answer, by, is_path(data) || is.factor(data[[by]]))
}

check_columns <- function(columns, apart) {
  if (is.null(columns)) return(NULL)
  fine <- is.character(columns) && length(columns) > 0 && !anyNA(columns) && !anyDuplicated(columns)
  if (!fine) fail("parameter_error", "columns must be NULL or the distinct names of columns.")
  if (any(columns %in% apart)) fail("parameter_error", "columns must not hold those of by and unit.")
  columns
}

# The columns that can be described, by their types and by what is declared.
describable <- function(data, apart, levels) {
  names <- setdiff(names(data)[!names(data) %in% names(data)[duplicated(names(data))]], apart)
  fine <- vapply(names, function(name) {
    !inherits(try(check_describable(data[[name]], name, levels), silent = TRUE), "try-error")
  }, NA)
  if (!any(fine)) {
    fail("schema_error", "no column can be described: text needs declared levels, levels = list(x = c(...)).")
  }
  names[fine]
}

check_describable <- function(x, name, levels) {
  kind <- kind_of(x, name)
  if (kind == "factor" && !length(levels_of(x))) fail("schema_error", "the factor '", name, "' has no levels.")
  if (kind == "text" && !name %in% names(levels)) {
    fail("schema_error", "column '", name, "' holds text and its levels are not declared; declare them with levels = list(",
         name, " = c(...)), or as a factor, whose levels are taken as public.")
  }
}

as_description <- function(answer) {
  pairs <- answer$correlation
  square <- function(values) {
    values <- as_numbers(values)
    values[is.nan(values)] <- NA
    names <- as.character(pairs$names)
    matrix(values, length(names), dimnames = list(names, names))
  }
  numbers <- as_frame(answer$numbers)
  levels <- as_frame(answer$levels)
  if (!length(levels)) {
    levels <- data.frame(
      column = character(), level = character(), count = numeric(), share = numeric(), std.error = numeric(),
      conf.low = numeric(), conf.high = numeric()
    )
  }
  description <- list(
    columns = answer$columns,
    statistics = as_frame(answer$statistics),
    numbers = numbers,
    levels = levels,
    histograms = lapply(answer$histograms, function(bars) lapply(bars, as_numbers)),
    guarantee = as_guarantee(answer$guarantee),
    text = answer$text
  )
  if (!is.null(pairs)) {
    description$correlation <- square(pairs$estimates)
    description$correlation.se <- square(pairs$std.errors)
  }
  structure(description, class = "dp_description")
}

#' @rdname dp_describe
#' @export
print.dp_description <- function(x, ...) {
  no_others(...)
  cat(x$text, "\n", sep = "")
  invisible(x)
}

#' @rdname dp_describe
#' @export
summary.dp_description <- function(object, ...) {
  no_others(...)
  object
}

#' @rdname dp_describe
#' @export
as.data.frame.dp_description <- function(x, row.names = NULL, optional = FALSE, stringsAsFactors = FALSE, ...) {
  no_others(...)
  framed(x$statistics, row.names, stringsAsFactors)
}

#' @rdname dp_describe
#' @export
tidy.dp_description <- function(x, ...) {
  no_others(...)
  as_tibble_if_possible(x$statistics)
}

# -- groups --------------------------------------------------------------------------------------------------

as_descriptions <- function(answer, by, is_factor) {
  levels <- unlist(answer$levels)
  at <- function(part) as.character(levels[as.integer(names(part)) + 1L])
  results <- lapply(answer$groups, as_description)
  structure(
    list(
      by = by,
      levels = if (is_factor) factor(levels, levels) else levels,
      results = stats::setNames(results, at(answer$groups)),
      failed = stats::setNames(in_r_words(as.character(unlist(answer$failed))), at(answer$failed)),
      text = answer$text,
      guarantee = as_guarantee(answer$guarantee)
    ),
    class = "dp_descriptions"
  )
}

#' @rdname dp_describe
#' @param i Name or position of a group.
#' @export
`[[.dp_descriptions` <- function(x, i, ..., exact = TRUE) {
  no_others(...)
  if (!isTRUE(exact)) fail("parameter_error", "exact must be TRUE: groups are taken by their whole names.")
  f <- fields(x)
  if (is.factor(i)) i <- as.character(i)
  name <- if (is.numeric(i)) names(x)[i] else as.character(i)
  if (length(name) != 1 || is.na(name) || !name %in% names(x)) fail("parameter_error", "there is no such group of '", f$by, "'.")
  if (name %in% names(f$failed)) fail("release_failed", f$failed[[name]], guarantee = f$guarantee)
  f$results[[name]]
}

#' @rdname dp_describe
#' @param name Of a field: `by`, `levels`, `results`, `failed` or `guarantee`.
#' @export
`$.dp_descriptions` <- function(x, name) fields(x)[[name]]

#' @rdname dp_describe
#' @export
length.dp_descriptions <- function(x) length(fields(x)$levels)

#' @rdname dp_describe
#' @export
names.dp_descriptions <- function(x) as.character(fields(x)$levels)

#' @rdname dp_describe
#' @export
tidy.dp_descriptions <- function(x, ...) {
  no_others(...)
  as_tibble_if_possible(as.data.frame.dp_descriptions(x))
}

#' @rdname dp_describe
#' @export
as.data.frame.dp_descriptions <- function(x, row.names = NULL, optional = FALSE, stringsAsFactors = FALSE, ...) {
  no_others(...)
  results <- fields(x)$results
  table <- stacked(lapply(unname(results), function(one) one$statistics))
  at <- match(names(results), as.character(fields(x)$levels))
  group <- fields(x)$levels[rep(at, vapply(results, function(one) nrow(one$statistics), 0L))]
  frame <- data.frame(group, table, check.names = FALSE)
  names(frame)[1] <- fields(x)$by
  framed(frame, row.names, stringsAsFactors)
}

# A data frame as as.data.frame() was asked for it.
framed <- function(frame, row.names, stringsAsFactors) {
  if (check_flag(stringsAsFactors, "stringsAsFactors")) {
    text <- vapply(frame, is.character, NA)
    frame[text] <- lapply(frame[text], factor)
  }
  if (!is.null(row.names)) row.names(frame) <- row.names
  frame
}

#' @rdname dp_describe
#' @export
print.dp_descriptions <- function(x, ...) {
  no_others(...)
  cat(fields(x)$text, "\n", sep = "")
  invisible(x)
}

#' @rdname dp_describe
#' @export
plot.dp_descriptions <- function(x, ...) {
  no_others(...)
  fail("parameter_error", "a plot is of one group, as plot(x[[\"", names(x)[1], "\"]]).")
}

# -- plots ---------------------------------------------------------------------------------------------------

#' @rdname dp_describe
#' @export
plot.dp_description <- function(x, columns = NULL, ...) {
  no_others(...)
  factors <- split(x$levels, factor(x$levels$column, unique(x$levels$column)))
  all <- c(names(x$histograms), names(factors))
  if (!is.null(columns) && !(is.character(columns) && length(columns) && all(columns %in% all))) {
    fail("parameter_error", "columns must be NULL or names among ", paste(all, collapse = ", "), ".")
  }
  shown <- if (is.null(columns)) all else intersect(all, columns)
  panels <- lapply(shown, function(name) {
    if (name %in% names(factors)) return(function() draw_shares(name, factors[[name]]))
    function() draw_histogram(name, x)
  })
  if (is.null(columns) && !is.null(x$correlation)) panels <- c(panels, function() draw_correlations(x$correlation))
  draw_panels(panels)
  invisible(x)
}

# Panels in rows of at most three, with lines above and below all of them.
draw_panels <- function(panels, across = min(3, length(panels)), above = NULL, below = NULL) {
  kept <- graphics::par("mar", "oma", "mfrow", "cex")
  on.exit(graphics::par(kept))
  graphics::par(mfrow = c(ceiling(length(panels) / across), across), mar = c(4.1, 4.1, 2.1, 1.1))
  # panels have smaller letters than the lines outside
  graphics::par(oma = c(1.6 * length(below), 0, 1.2 * length(above), 0) / graphics::par("cex"))
  for (panel in panels) panel()
  if (length(above)) graphics::mtext(paste(above, collapse = "\n"), 3, outer = TRUE, font = 2)
  if (length(below)) graphics::mtext(below, 1, line = 0.4, outer = TRUE)
}

# Bars between points about the private quartiles; lines at these, and the mean with its interval; how many rows visibly lie
# beyond the bars.
draw_histogram <- function(name, x) {
  bars <- x$histograms[[name]]
  heights <- bars$rows / diff(bars$ends)
  table <- x$statistics[x$statistics$column == name, ]
  row <- function(statistic) table[table$statistic == statistic, ]
  mean <- row("mean")
  xlim <- range(bars$ends, mean$estimate, mean$conf.low, mean$conf.high, finite = TRUE)
  graphics::plot.default(xlim, c(0, max(heights, 1e-300)), type = "n", yaxt = "n", xlab = name, ylab = "Rows per unit")
  graphics::rect(utils::head(bars$ends, -1), 0, bars$ends[-1], heights, col = "grey85", border = NA)
  quartiles <- vapply(c("25 %", "median", "75 %"), function(s) row(s)$estimate, 0)
  graphics::abline(v = quartiles, lwd = c(1, 2, 1))
  level <- 0.04 * graphics::par("usr")[4]
  if (is.finite(mean$conf.low)) graphics::segments(mean$conf.low, level, mean$conf.high, level, lwd = 2, col = 2)
  graphics::points(mean$estimate, level, pch = 19, col = 2)
  for (side in which(bars$beyond > 0)) {
    far <- sprintf("%.0f%% of rows further %s", 100 * bars$beyond[side], c("left", "right")[side])
    graphics::mtext(far, 3, line = side - 1, adj = side - 1, cex = graphics::par("cex"))
  }
}

draw_shares <- function(name, table) {
  y <- rev(seq_len(nrow(table)))
  kept <- graphics::par("mar")
  on.exit(graphics::par(mar = kept))
  labels <- shortened(table$level, "", 0.4 * graphics::par("fin")[1])
  graphics::par(mar = replace(kept, 2, lines_of(labels)))
  # the ends of a share that is not determined are those of all shares
  ends <- replace(table$conf.high, is.na(table$conf.high), 1)
  graphics::plot.default(
    c(0, max(ends)), c(0.5, length(y) + 0.5), type = "n", yaxt = "n", xlab = paste("Share,", name), ylab = ""
  )
  graphics::rect(0, y - 0.4, table$share, y + 0.4, col = "grey85", border = NA)
  graphics::segments(table$conf.low, y, table$conf.high, y)
  graphics::axis(2, at = y, labels = labels, las = 1)
}

draw_correlations <- function(r) {
  at <- seq_len(nrow(r))
  kept <- graphics::par("mar")
  on.exit(graphics::par(mar = kept))
  labels <- shortened(rownames(r), "", 0.3 * min(graphics::par("fin")))
  wide <- lines_of(labels)
  graphics::par(mar = c(wide, wide, 2.1, 1.1))
  colours <- grDevices::hcl.colors(21, "Blue-Red")
  graphics::image(at, at, t(r[rev(at), ]), zlim = c(-1, 1), col = colours, axes = FALSE, xlab = "", ylab = "")
  graphics::axis(1, at, labels, las = 2, tick = FALSE)
  graphics::axis(2, rev(at), labels, las = 1, tick = FALSE)
  text <- ifelse(is.na(r), "n.d.", formatC(r, digits = 2, format = "f"))
  graphics::text(col(r), nrow(r) + 1 - row(r), text, col = ifelse(!is.na(r) & abs(r) > 0.6, "white", "black"))
  graphics::title("Correlation", font.main = 1, cex.main = 1)
}
