# Fits of every declared group, from by =.

as_groups <- function(answer, request, class, call = NULL) {
  levels <- unlist(answer$levels)
  groups <- answer$groups
  first <- Find(function(g) !is.null(g$columns), groups)
  design <- if (!is.null(first)) as_design(first$columns, request$meaning, request$bounds)
  results <- lapply(groups, as_fit, request, class, design)
  positions <- as.integer(names(groups)) + 1L
  reasons <- named_here(as.character(unlist(answer$failed)))
  if (!is_path(request$columns)) reasons <- without_types(reasons)
  new_groups(
    method = if (length(results)) results[[1]]$method else answer$method,
    formula = request$meaning$formula,
    by = request$by,
    levels = if (request$by_is_factor) factor(levels, levels) else levels,
    results = stats::setNames(results, as.character(levels[positions])),
    failed = stats::setNames(
      in_r_words(reasons),
      as.character(levels[as.integer(names(answer$failed)) + 1L])
    ),
    guarantee = as_guarantee(answer$guarantee),
    call = call,
    class = class
  )
}

# A list with a fit for each group, by name; for a group without one the condition that says why. What they have in common
# is an attribute.
new_groups <- function(method, formula, by, levels, results, failed, guarantee, call = NULL, class = NULL) {
  names <- as.character(levels)
  groups <- lapply(stats::setNames(nm = names), function(name) {
    if (name %in% names(failed)) no_fit(failed[[name]], guarantee) else results[[name]]
  })
  facts <- list(
    method = method, formula = formula, by = by, levels = levels, failed = failed, guarantee = guarantee, call = call
  )
  structure(groups, facts = facts, class = c(paste0(class, "_groups", recycle0 = TRUE), "dpstats_groups"))
}

no_fit <- function(reason, guarantee) tryCatch(fail("release_failed", reason, guarantee = guarantee), error = identity)

# What all groups have in common, and the fits that there are.
group_facts <- function(x) {
  facts <- attr(x, "facts")
  facts$results <- Filter(function(fit) inherits(fit, "dpstats"), unclass(x)[names(x)])
  facts
}

#' Fits of every group
#'
#' What an estimator returns with `by =`: one private fit for each declared level of a column. The groups are disjoint,
#' so each has the whole budget.
#'
#' @param x,object The collection.
#' @param i Names or positions of groups; of one for `[[`.
#' @param name Of a group, or of a field: `method`, `formula`, `by`, `levels`, `results`, `failed`, `guarantee` or `call`. A group
#'   of that name comes first.
#' @param level Confidence of the intervals; see [confint()][dpstats-methods].
#' @param parm,terms Names or positions of coefficients; by default all, in plots all but the intercept.
#' @param intercept Whether to show the intercept, too.
#' @param type.predict As `type` of `predict()`.
#' @param data Refused: a fit keeps no rows; give `newdata`.
#' @param n How many rows to print.
#' @param digits Number of significant digits.
#' @param use.fallback As of [stats::nobs()]: there is none.
#' @param exact Only `TRUE`: groups are taken by their whole names.
#' @param ... Refused; by `predict()` handed to that of the fits.
#'
#' @details
#' The collection is a list with a fit for each group, in the order of the levels: `length()`, `names()`, `for`, `lapply()`,
#' `seq_along()` and `as.list()` do what they do with any list, and `x["A"]` or `x[1:3]` is a smaller collection. A group whose
#' release failed has in its place the condition that says why, of class `"dpstats_release_failed"`; `x[["A"]]` and `x$A` stop
#' with it, and so does [Map()], but not on `as.list(x)`. `names(x$failed)` are these groups, `x$results` the fits without them.
#'
#' @return `x[["A"]]`: the fit of a group; an error of class `"dpstats_release_failed"` says why a group has none.
#'   `coef()`: a matrix with a row for each group, `NA` for a group without a fit. `confint()`: a data frame with a row
#'   for each group and coefficient. `vcov()`: a list with a matrix for each group, `NULL` for a group without a fit. `nobs()`: a
#'   vector, noisy where [that of a fit][dpstats-methods] is. `augment()`: `newdata` with the predictions of the group of each
#'   row as `.fitted`. `plot()`: a panel for each coefficient, with the intervals of the groups, the guarantee above and what
#'   the intervals cover below; it returns the collection invisibly.
#' @name dpstats-groups
#' @examplesIf dp_available() && requireNamespace("ggplot2", quietly = TRUE)
#' fits <- dp_median(price ~ 1, data = ggplot2::diamonds, eps = 1, by = "cut")
#' fits
#' coef(fits)
#' fits[["Ideal"]]
#' for (fit in fits) print(coef(fit))
#' tidy(fits)
#' plot(fits)
NULL

#' @rdname dpstats-groups
#' @export
`[[.dpstats_groups` <- function(x, i, ..., exact = TRUE) {
  no_others(...)
  if (!isTRUE(exact)) fail("parameter_error", "exact must be TRUE: groups are taken by their whole names.")
  if (is.factor(i)) i <- as.character(i)
  name <- if (is.numeric(i)) names(x)[i] else as.character(i)
  if (length(name) != 1 || is.na(name) || !name %in% names(x)) {
    fail("parameter_error", "there is no such group of '", attr(x, "facts")$by, "'.")
  }
  found <- unclass(x)[[name]]
  if (inherits(found, "condition")) stop(found)
  found
}

#' @rdname dpstats-groups
#' @export
`[.dpstats_groups` <- function(x, i) {
  facts <- attr(x, "facts")
  if (missing(i)) return(x)
  if (is.factor(i)) i <- as.character(i)
  at <- stats::setNames(seq_along(x), names(x))[i]
  if (anyNA(at) || anyDuplicated(at)) fail("parameter_error", "there are no such groups of '", facts$by, "', or one comes twice.")
  at <- unname(at)
  levels <- facts$levels[at]
  facts$levels <- if (is.factor(levels)) factor(levels, as.character(levels)) else levels
  facts$failed <- facts$failed[names(facts$failed) %in% as.character(levels)]
  structure(unclass(x)[at], facts = facts, class = class(x))
}

#' @rdname dpstats-groups
#' @export
`$.dpstats_groups` <- function(x, name) {
  if (name %in% names(x)) return(x[[name]])
  facts <- group_facts(x)
  if (!name %in% names(facts)) {
    fail("parameter_error", "there is no such group of '", facts$by, "', nor a field of that name; what is of one fit is that of a ",
         "group, as fits[[\"A\"]].")
  }
  facts[[name]]
}

#' @rdname dpstats-groups
#' @export
as.list.dpstats_groups <- function(x, ...) {
  no_others(...)
  unclass(x)[names(x)]
}

#' @importFrom utils str
#' @export
str.dpstats_groups <- function(object, ...) utils::str(as.list(object), ...)

#' @rdname dpstats-groups
#' @export
vcov.dpstats_groups <- function(object, ...) {
  no_others(...)
  lapply(object, function(fit) if (inherits(fit, "dpstats")) vcov.dpstats(fit))
}

#' @rdname dpstats-groups
#' @export
nobs.dpstats_groups <- function(object, use.fallback = FALSE, ...) {
  no_others(...)
  vapply(object, function(fit) if (inherits(fit, "dpstats")) as.double(nobs.dpstats(fit)) else NA_real_, 0)
}

#' @rdname dpstats-groups
#' @export
plot.dpstats_groups <- function(x, terms = NULL, intercept = FALSE, level = NULL, ...) {
  no_others(...)
  table <- tidy_groups(x, TRUE, level)
  all <- coefficient_names(x)
  if (!length(all)) fail("not_released", "There is nothing to draw: no group has a fit.")
  shown <- if (is.null(terms)) all[intercept | all != "(Intercept)"] else chosen(terms, all, "terms")
  if (!length(shown)) shown <- all
  facts <- group_facts(x)
  fit <- facts$results[[1]]
  effects <- !of_location(fit)
  draw_panels(
    lapply(shown, function(term) function() draw_groups(table[table$term == term, ], term, names(facts$failed), effects)),
    above = plot_title(paste(facts$method, "by", facts$by), facts$guarantee),
    below = plot_coverage(fit, if (is.null(level)) 1 - fit$alpha else level)
  )
  invisible(x)
}

draw_groups <- function(table, term, failed, effects) {
  ends <- cbind(table$conf.low, table$conf.high)
  groups <- as.character(table[[1]])
  lost <- !groups %in% failed & tells_nothing(ends[, 1], ends[, 2]) & !all(is.na(ends))
  draw_intervals(table$estimate, ends, paste0(groups, ifelse(groups %in% failed, " (no estimate)", "")), lost,
                 effects, xlab = shortened(term, "", 0.5 * graphics::par("fin")[1]))
}

#' @rdname dpstats-groups
#' @export
augment.dpstats_groups <- function(x, newdata, data, type.predict = "link", ...) {
  no_others(...)
  if (!missing(data) || missing(newdata)) not_released("fitted")
  newdata$.fitted <- unname(predict.dpstats_groups(x, newdata, type = type.predict))
  as_tibble_if_possible(newdata)
}

of_one_fit <- function(what) {
  fail("parameter_error", what, "() is of one fit: take that of a group, as in ", what, "(fits[[\"A\"]]), or of each, lapply(fits, ", what,
       ").")
}

#' @export
anova.dpstats_groups <- function(object, ...) {
  no_others(...)
  of_one_fit("anova")
}

#' @export
drop1.dpstats_groups <- function(object, scope, ...) {
  no_others(...)
  of_one_fit("drop1")
}

#' @export
sigma.dpstats_groups <- function(object, ...) {
  no_others(...)
  of_one_fit("sigma")
}

#' @export
df.residual.dpstats_groups <- function(object, ...) {
  no_others(...)
  of_one_fit("df.residual")
}

#' @export
family.dpstats_groups <- function(object, ...) {
  no_others(...)
  of_one_fit("family")
}

#' @export
deviance.dpstats_glm_groups <- function(object, ...) {
  no_others(...)
  of_one_fit("deviance")
}

#' @exportS3Method emmeans::recover_data
recover_data.dpstats_groups <- function(object, ...) "emmeans() is of one fit: take that of a group, as in emmeans(fits[[\"A\"]], ...)."

# Of other packages, which ask a fit for a vector of coefficients and one covariance.

#' @exportS3Method car::linearHypothesis
linearHypothesis.dpstats_groups <- function(model, ...) of_one_fit("linearHypothesis")

#' @exportS3Method car::deltaMethod
deltaMethod.dpstats_groups <- function(object, ...) of_one_fit("deltaMethod")

#' @exportS3Method car::vif
vif.dpstats_groups <- function(mod, ...) of_one_fit("vif")

#' @exportS3Method car::Anova
Anova.dpstats_groups <- function(mod, ...) of_one_fit("Anova")

#' @exportS3Method lmtest::coeftest
coeftest.dpstats_groups <- function(x, ...) of_one_fit("coeftest")

#' @exportS3Method lmtest::coefci
coefci.dpstats_groups <- function(x, ...) of_one_fit("coefci")

#' @exportS3Method multcomp::modelparm
modelparm.dpstats_groups <- function(model, ...) of_one_fit("glht")

#' @exportS3Method parameters::model_parameters
model_parameters.dpstats_groups <- function(model, ...) of_one_fit("model_parameters")

# A list whose [[ and $ mean something else.
fields <- function(x) unclass(x)

#' @rdname dpstats-groups
#' @export
coef.dpstats_groups <- function(object, ...) {
  no_others(...)
  names <- coefficient_names(object)
  results <- group_facts(object)$results
  rows <- lapply(names(object), function(level) {
    fit <- results[[level]]
    if (is.null(fit)) rep(NA_real_, length(names)) else unname(shown_coefficients(fit)[names])
  })
  matrix(as.double(unlist(rows)), length(object), length(names), byrow = TRUE, dimnames = list(names(object), names))
}

coefficient_names <- function(object) {
  found <- lapply(group_facts(object)$results, function(fit) names(fit$coefficients))
  if (length(found)) found[[which.max(lengths(found))]] else character()
}

#' @rdname dpstats-tidiers
#' @export
tidy.dpstats_groups <- function(x, conf.int = TRUE, conf.level = NULL, exponentiate = FALSE, ...) {
  no_others(...)
  as_tibble_if_possible(exponentiated_if(exponentiate, tidy_groups(x, conf.int, conf.level)))
}

tidy_groups <- function(x, conf.int, conf.level) {
  names <- coefficient_names(x)
  empty <- data.frame(term = names)
  columns <- c("estimate", "std.error", "statistic", "p.value", if (conf.int) c("conf.low", "conf.high"))
  empty[columns] <- list(rep(NA_real_, length(names)))
  facts <- group_facts(x)
  tables <- lapply(names(x), function(level) {
    fit <- facts$results[[level]]
    if (is.null(fit)) empty else tidy_frame(fit, conf.int, if (is.null(conf.level)) 1 - fit$alpha else conf.level)
  })
  table <- stacked(tables)
  group <- data.frame(rep(facts$levels, vapply(tables, nrow, 0L)))
  names(group) <- facts$by
  cbind(group, table)
}

# Tables one below another, of which some have columns of numbers that others lack.
stacked <- function(tables) {
  columns <- unique(unlist(lapply(tables, names)))
  do.call(rbind, lapply(tables, function(one) {
    one[setdiff(columns, names(one))] <- NA_real_
    one[columns]
  }))
}

#' @rdname dpstats-groups
#' @export
confint.dpstats_groups <- function(object, parm, level = NULL, ...) {
  no_others(...)
  table <- tidy_groups(object, TRUE, level)[c(group_facts(object)$by, "term", "conf.low", "conf.high")]
  if (missing(parm)) return(table)
  table <- table[table$term %in% chosen(parm, coefficient_names(object), "parm"), ]
  row.names(table) <- NULL
  table
}

#' @rdname dpstats-tidiers
#' @export
glance.dpstats_groups <- function(x, ...) {
  no_others(...)
  f <- group_facts(x)
  as_tibble_if_possible(data.frame(
    method = f$method, by = f$by, groups = length(x), failed = length(f$failed), glance_guarantee(f$guarantee)
  ))
}

#' @rdname dpstats-groups
#' @export
formula.dpstats_groups <- function(x, ...) {
  no_others(...)
  group_facts(x)$formula
}

#' @rdname dpstats-groups
#' @export
summary.dpstats_groups <- function(object, level = NULL, ...) {
  no_others(...)
  f <- group_facts(object)
  fit <- if (length(f$results)) f$results[[1]]
  if (is.null(level) && !is.null(fit)) level <- 1 - fit$alpha
  structure(
    c(f[c("method", "formula", "by", "failed", "guarantee")], list(
      offset = if (!is.null(fit)) offset_of_call(fit),
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
  c(common, utils::head(own, shown), if (more > 0) paste0(more, " more note", if (more > 1) "s", ": fits[[group]]$notes has those of a group."))
}

#' @rdname dpstats-groups
#' @export
print.summary.dpstats_groups <- function(x, n = 40, digits = max(3L, getOption("digits") - 3L), ...) {
  no_others(...)
  print_title(x, x$offset)
  cat("Groups by ", x$by, ": ", x$groups, sep = "")
  if (length(x$failed)) cat(", ", length(x$failed), " without estimate", sep = "")
  cat("\n\n")
  table <- x$table
  # of a column that has left the model there is no estimate
  value <- intersect(c("estimate", "exp(coef)"), names(table))
  left <- is.na(table$std.error) & is.na(table$conf.low) & table[[value]] %in% (if (value == "estimate") 0 else 1)
  table[[value]][left] <- NA
  filled <- vapply(table, function(v) !is.numeric(v) || !all(is.na(v)), NA)
  shown <- table[seq_len(min(n, nrow(table))), filled & !names(table) %in% c("statistic", "p.value"), drop = FALSE]
  if (nrow(shown)) {
    print(shown, digits = digits, row.names = FALSE)
    if (nrow(table) > n) cat(nrow(table) - n, "more rows: tidy() has them all.\n")
    cat("\n")
  }
  print_sentences(c(
    if (isTRUE(x$exponentiate)) sub(" and z", "", exponentiated), if (!x$determined) legend(length(unique(x$table$term))), x$coverage, promise(x$guarantee)
  ))
  print_sentences(x$notes, "Note: ")
  for (reason in unique(x$failed)) {
    same <- names(x$failed)[x$failed == reason]
    print_sentences(paste0("No estimate for ", listed(same, 5), ": ", reason))
  }
  invisible(x)
}

#' @rdname dpstats-groups
#' @export
print.dpstats_groups <- function(x, n = 10, digits = max(3L, getOption("digits") - 3L), ...) {
  no_others(...)
  print(summary(x), n = n, digits = digits)
  invisible(x)
}

#' @rdname dpstats-groups
#' @param newdata A data frame with the columns of the formula and that of the groups.
#' @export
predict.dpstats_groups <- function(object, newdata, ...) {
  if (missing(newdata)) not_released("fitted")
  given <- given_names(...)
  if (!all(given %in% c("type", "interval", "level", "se.fit"))) no_others(...)
  if (!isFALSE(list(..., se.fit = FALSE)$se.fit)) {
    fail("parameter_error", "se.fit must be FALSE for all groups together: predict from the fit of one, as fits[[\"A\"]].")
  }
  facts <- group_facts(object)
  if (!is.data.frame(newdata)) fail("parameter_error", "newdata must be a data frame.")
  group <- as.character(column_of(newdata, facts$by))
  values <- stats::setNames(rep(NA_real_, nrow(newdata)), row.names(newdata))
  for (level in intersect(unique(group), names(facts$results))) {
    rows <- which(group == level)
    part <- predict(facts$results[[level]], newdata[rows, , drop = FALSE], ...)
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
