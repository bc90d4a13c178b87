# Fits of every declared group, from by =.

as_groups <- function(answer, request, class) {
  levels <- unlist(answer$levels)
  groups <- answer$groups
  first <- Find(function(g) !is.null(g$columns), groups)
  design <- if (!is.null(first)) as_design(first$columns, request$meaning, request$bounds)
  results <- lapply(groups, as_fit, request, class, design)
  positions <- as.integer(names(groups)) + 1L
  structure(
    list(
      method = if (length(results)) results[[1]]$method else answer$method,
      formula = request$meaning$formula,
      by = request$by,
      levels = if (request$by_is_factor) factor(levels, levels) else levels,
      results = stats::setNames(results, as.character(levels[positions])),
      failed = stats::setNames(
        in_r_words(as.character(unlist(answer$failed))),
        as.character(levels[as.integer(names(answer$failed)) + 1L])
      ),
      guarantee = as_guarantee(answer$guarantee)
    ),
    class = c(paste0(class, "_groups"), "dpstats_groups")
  )
}

#' Fits of every group
#'
#' What an estimator returns with `by =`: one private fit for each declared level of a column. The groups are disjoint,
#' so each has the whole budget.
#'
#' @param x,object The collection.
#' @param i Name or position of a group.
#' @param name Of a field: `method`, `formula`, `by`, `levels`, `results`, `failed` or `guarantee`.
#' @param level Confidence of the intervals; see [confint()][dpstats-methods].
#' @param parm Names or positions of coefficients; by default all.
#' @param n How many rows to print.
#' @param digits Number of significant digits.
#' @param ... Ignored; by `predict()` handed to that of the fits.
#'
#' @return `x[["A"]]`: the fit of a group; an error of class `"dpstats_release_failed"` says why a group has none.
#'   `coef()`: a matrix with a row for each group, `NA` for a group without a fit. `confint()`: a data frame with a row
#'   for each group and coefficient. `length()` and `names()`: the groups.
#' @name dpstats-groups
#' @examplesIf dp_available() && requireNamespace("ggplot2", quietly = TRUE)
#' fits <- dp_median(price ~ 1, data = ggplot2::diamonds, eps = 1, by = "cut")
#' fits
#' coef(fits)
#' fits[["Ideal"]]
#' tidy(fits)
NULL

#' @rdname dpstats-groups
#' @export
`[[.dpstats_groups` <- function(x, i, ...) {
  name <- if (is.numeric(i)) names(x)[i] else as.character(i)
  if (length(name) != 1 || is.na(name) || !name %in% names(x)) {
    fail("parameter_error", "there is no such group of '", fields(x)$by, "'.")
  }
  if (name %in% names(fields(x)$failed)) {
    fail("release_failed", fields(x)$failed[[name]], guarantee = fields(x)$guarantee)
  }
  fields(x)$results[[name]]
}

#' @rdname dpstats-groups
#' @export
`$.dpstats_groups` <- function(x, name) fields(x)[[name]]

#' @rdname dpstats-groups
#' @export
length.dpstats_groups <- function(x) length(fields(x)$levels)

#' @rdname dpstats-groups
#' @export
names.dpstats_groups <- function(x) as.character(fields(x)$levels)

# The list itself, for which [[ and $ mean fields.
fields <- function(x) unclass(x)

#' @rdname dpstats-groups
#' @export
coef.dpstats_groups <- function(object, ...) {
  names <- coefficient_names(object)
  rows <- lapply(names(object), function(level) {
    fit <- fields(object)$results[[level]]
    if (is.null(fit)) rep(NA_real_, length(names)) else unname(fit$coefficients[names])
  })
  matrix(as.double(unlist(rows)), length(object), length(names), byrow = TRUE, dimnames = list(names(object), names))
}

coefficient_names <- function(object) {
  found <- lapply(fields(object)$results, function(fit) names(fit$coefficients))
  if (length(found)) found[[which.max(lengths(found))]] else character()
}

#' @rdname dpstats-tidiers
#' @export
tidy.dpstats_groups <- function(x, conf.int = TRUE, conf.level = NULL, ...) {
  as_tibble_if_possible(tidy_groups(x, conf.int, conf.level))
}

tidy_groups <- function(x, conf.int, conf.level) {
  names <- coefficient_names(x)
  empty <- data.frame(term = names)
  columns <- c("estimate", "std.error", "statistic", "p.value", if (conf.int) c("conf.low", "conf.high"))
  empty[columns] <- list(rep(NA_real_, length(names)))
  tables <- lapply(names(x), function(level) {
    fit <- fields(x)$results[[level]]
    if (is.null(fit)) empty else tidy_frame(fit, conf.int, if (is.null(conf.level)) 1 - fit$alpha else conf.level)
  })
  table <- do.call(rbind, tables)
  group <- data.frame(rep(fields(x)$levels, vapply(tables, nrow, 0L)))
  names(group) <- fields(x)$by
  cbind(group, table)
}

#' @rdname dpstats-groups
#' @export
confint.dpstats_groups <- function(object, parm, level = NULL, ...) {
  no_others(...)
  table <- tidy_groups(object, TRUE, level)[c(fields(object)$by, "term", "conf.low", "conf.high")]
  if (missing(parm)) return(table)
  table <- table[table$term %in% chosen(parm, coefficient_names(object)), ]
  row.names(table) <- NULL
  table
}

#' @rdname dpstats-tidiers
#' @export
glance.dpstats_groups <- function(x, ...) {
  f <- fields(x)
  as_tibble_if_possible(data.frame(
    method = f$method, by = f$by, groups = length(x), failed = length(f$failed), glance_guarantee(f$guarantee)
  ))
}

#' @rdname dpstats-groups
#' @export
formula.dpstats_groups <- function(x, ...) fields(x)$formula

#' @rdname dpstats-groups
#' @export
summary.dpstats_groups <- function(object, level = NULL, ...) {
  f <- fields(object)
  fit <- if (length(f$results)) f$results[[1]]
  if (is.null(level) && !is.null(fit)) level <- 1 - fit$alpha
  structure(
    c(f[c("method", "formula", "by", "failed", "guarantee")], list(
      groups = length(object),
      table = tidy_groups(object, TRUE, level),
      determined = all(vapply(f$results, function(fit) all(determined(fit)), NA)),
      notes = notes_of_groups(f$results),
      coverage = if (!is.null(fit)) coverage_sentence(fit, level)
    )),
    class = "summary.dpstats_groups"
  )
}

# The notes that all groups have, then each group's own, as far as there is room.
notes_of_groups <- function(fits, shown = 12) {
  common <- Reduce(intersect, lapply(fits, function(fit) fit$notes))
  own <- unlist(lapply(names(fits), function(level) {
    notes <- setdiff(fits[[level]]$notes, common)
    if (length(notes)) paste0(level, ": ", notes)
  }))
  more <- length(own) - shown
  c(common, utils::head(own, shown), if (more > 0) paste(more, "more notes: fits[[group]]$notes has those of a group."))
}

#' @rdname dpstats-groups
#' @export
print.summary.dpstats_groups <- function(x, n = 40, digits = max(3L, getOption("digits") - 3L), ...) {
  print_title(x)
  cat("Groups by ", x$by, ": ", x$groups, sep = "")
  if (length(x$failed)) cat(", ", length(x$failed), " without estimate", sep = "")
  cat("\n\n")
  table <- x$table
  filled <- vapply(table, function(v) !is.numeric(v) || !all(is.na(v)), NA)
  shown <- table[seq_len(min(n, nrow(table))), filled & !names(table) %in% c("statistic", "p.value"), drop = FALSE]
  if (nrow(shown)) {
    print(shown, digits = digits, row.names = FALSE)
    if (nrow(table) > n) cat(nrow(table) - n, "more rows: tidy() has them all.\n")
    cat("\n")
  }
  print_sentences(c(if (!x$determined) legend, x$coverage, promise(x$guarantee)))
  print_sentences(x$notes, "Note: ")
  for (reason in unique(x$failed)) {
    same <- names(x$failed)[x$failed == reason]
    print_sentences(paste0("No estimate for ", listed(same, 5), ": ", reason))
  }
  invisible(x)
}

#' @rdname dpstats-groups
#' @export
print.dpstats_groups <- function(x, n = 10, ...) {
  print(summary(x), n = n)
  invisible(x)
}

#' @rdname dpstats-groups
#' @param newdata A data frame with the columns of the formula and that of the groups.
#' @export
predict.dpstats_groups <- function(object, newdata, ...) {
  if (missing(newdata)) not_released("fitted")
  if (!isFALSE(list(..., se.fit = FALSE)$se.fit)) {
    fail("parameter_error", "se.fit must be FALSE for all groups together: predict from the fit of one, as fits[[\"A\"]].")
  }
  group <- as.character(column_of(newdata, fields(object)$by))
  values <- stats::setNames(rep(NA_real_, nrow(newdata)), row.names(newdata))
  for (level in intersect(unique(group), names(fields(object)$results))) {
    rows <- which(group == level)
    part <- predict(fields(object)$results[[level]], newdata[rows, , drop = FALSE], ...)
    if (!is.matrix(part)) {
      values[rows] <- part
    } else {
      if (!is.matrix(values)) {
        values <- matrix(NA_real_, nrow(newdata), ncol(part), dimnames = list(row.names(newdata), colnames(part)))
      }
      values[rows, ] <- part
    }
  }
  values
}
