# What a budget will buy: a whole estimator is simulated before any release.

#' Plan a private regression
#'
#' Standard errors, widths of intervals, power and the chance of no result, before any budget is spent: the whole estimator is run
#' again and again on tables that are drawn from a public table or from a description. Nothing private is read, and nothing is
#' charged.
#'
#' @param formula As for the estimator; see [dp_formula].
#' @param like A public data frame, whose rows are drawn with replacement, a named list that describes columns, or a list of groups
#'   of rows that are described by themselves; see below. Never give private data here: the plan would publish them.
#' @param n,eps Numbers of rows and budgets; each may be a vector.
#' @param estimator The name of a regression with intervals, without `dp_`, such as `"ols"` or `"logit"`.
#' @param delta As for the estimator.
#' @param options A list of the estimator's own arguments, such as `list(cov_type = "bootstrap")`.
#' @param correlation Correlations of described columns: a symmetric matrix with names. Others are 0. (Levels of a factor count
#'   as 1, 2 and so on.)
#' @param effects A vector of coefficients by the names that the fit gives them; others are 0. They are what the power is for. If
#'   `like` has no response, it is made from them.
#' @param sigma,r2 Of a made response: the standard deviation of the errors, or the share of the variance explained.
#' @param errors Their law, described as a column is, such as `"normal"`, `"laplace"`, `list("t", df = 4)` or
#'   `list("gamma", 1, 0.7)`, which is skewed.
#' @param spread How their standard deviation depends on columns: `c(carat = 0.5)` multiplies it by `exp(0.5)` for each
#'   standard deviation of the column.
#' @param target What is wanted, as in `list(carat = c(width = 100))`, also with `se` or `power`. Leave out `n` or `eps`, and the
#'   least that meets the target is searched for.
#' @param level Confidence of the intervals; one minus it is the size of the tests.
#' @param runs Tables for each number of rows. By default 100 and more, up to 600, until the median standard errors are
#'   known to 3 percent.
#' @param seed A plan is a function of its arguments. Neither R's nor NumPy's own seed is touched or used.
#' @param x,object A plan.
#' @param y What is drawn: `"se"`, `"width"`, `"ratio"`, `"power"`, `"determined"` or `"refused"`.
#' @param over Over what: `"eps"` or `"n"`; by default that of which there are more values.
#' @param terms Names of coefficients; by default all but the intercept.
#' @param row.names,stringsAsFactors As of [as.data.frame()].
#' @param optional Ignored: [data.frame()] sets it.
#' @param ... Refused.
#'
#' @section Describing columns:
#' A column is a law with its parameters, in this order or by name: `list("normal", mean, sd)`, `list("lognormal", mean, sd)`,
#' `list("gamma", mean, sd)`, `list("exponential", mean)`, `list("laplace", mean, sd)`, `list("t", mean, sd, df)`,
#' `list("uniform", low, high)`, `list("beta", mean, sd, low, high)`, `list("poisson", mean)`, `list("negbinomial", mean, sd)`,
#' `list("bernoulli", p)`, `list("integers", low, high)`. `low` and `high` by name cut others off, as in
#' `list("gamma", 0.8, 0.47, low = 0.2)`; mean and sd stay those of the column itself. `list("quantiles", c("0" = 18, "0.5" = 40,
#' "1" = 90))` has straight lines between quantiles. `c(yes = 0.3, no = 0.7)` is a factor with shares of its levels, and
#' `list("numbers", c("1" = 0.2, "2" = 0.8))` has numbers with their shares.
#'
#' A list of groups describes groups of rows, such as classes of the residuals of a fit. Each is `list(share = 0.2, columns = list(...),
#' correlation = ...)`, the last as the argument or left out.
#'
#' @details
#' Standard errors are medians over the runs that determine a coefficient; power is the mean over all runs. Where privacy noise
#' matters, standard errors depend on the tails and the skewness of the errors, and on how both change with the columns. Some public
#' rows tell that, and so do the quantiles of all columns within classes of residuals, from the lowest twentieth to the highest; a
#' plan from a description of whole columns, or from normal errors, is as a rule too optimistic.
#'
#' @return A list of class `"dp_plan"` with the data frame `table`: a row for each `eps`, `n` and `term`, with `se`, the median
#'   standard error, and `error`, the simulation's standard error of that; `width`; `ratio` of `se` to the standard error without
#'   privacy; `power`; `determined` and `refused`, shares of the runs; `runs`. With a `target`, `needed` is a list of `eps`, `n`,
#'   `low` and `high`, between which the one that was searched for lies as far as the simulation tells, `reached`, and which
#'   was `found`. `plot()` returns the plan invisibly.
#' @examplesIf dp_available()
#' columns <- list(carat = list("gamma", 0.8, 0.47, low = 0.2), table = list("normal", 57.5, 2.2))
#' plan <- dp_plan(price ~ carat + table, columns, n = 5000, eps = c(0.5, 2),
#'                 effects = c(carat = 7800), r2 = 0.85, runs = 5)
#' plan
#' plot(plan)
#' @export
dp_plan <- function(formula, like, n = NULL, eps = NULL, estimator = "ols", delta = 1e-6, options = NULL, correlation = NULL,
                    effects = NULL, sigma = NULL, r2 = NULL, errors = "normal", spread = NULL, target = NULL, level = 0.95,
                    runs = NULL, seed = 0, ...) {
  no_more(...)
  check_level(level)
  if (missing(like)) fail("parameter_error", "like is missing: it must be a public data frame, or a list of described columns.")
  formula <- checked_formula(formula)
  described <- !is.data.frame(like)
  groups <- if (described && are_groups(like)) described_groups(unname(like))
  columns <- if (!is.null(groups)) columns_of_groups(groups) else if (described) described_columns(like) else public_columns(like)
  frame <- if (described) lapply(columns, prototype) else columns
  response <- all.vars(formula[[2]])
  for (name in setdiff(response, names(frame))) frame[[name]] <- rep(NA_real_, NROW(frame[[1]]))
  own <- estimator_options(options)
  glm <- if (is_one_of(estimator, c("logit", "poisson"))) {
    list(name = "dp_plan()", takes_levels = estimator == "logit", takes_offset = FALSE)
  }
  meaning <- translate_formula(formula, frame, NULL, glm)
  used <- intersect(names(columns), meaning$reads)
  like <- if (!is.null(groups)) {
    list(groups = groups)
  } else if (described) {
    list(columns = columns)
  } else {
    list(table = lapply(columns[used], function(x) cross_column(x, levels_of(x))))
  }
  factors <- lapply(meaning$factors, function(f) f$code)
  terms <- lapply(meaning$terms, function(term) as.list(term - 1L))
  made <- unwrap(explore()$plan_columns(meaning$python, like, own, factors, terms))
  design <- as_design(made$columns, meaning, own$bounds)
  python <- as.character(made$names)[design$order]
  named <- function(values, what) by_column(values, what, design$names, python)
  arguments <- for_python(list(
    n = n, eps = eps, estimator = estimator, delta = delta, effects = named(effects, "effects"), sigma = sigma, r2 = r2,
    spread = named(spread, "spread"), alpha = round(1 - level, 12), runs = runs, seed = seed
  ))
  arguments$options <- own
  arguments$errors <- described_column(errors, "errors")
  arguments$correlation <- pairs_of(correlation, if (described && is.null(groups)) names(columns))
  arguments$target <- target_of(target, design$names, python)
  answer <- unwrap(explore()$plan(
    meaning$python, like, arguments, deparse1(meaning$formula), stats::setNames(as.list(design$names), python)
  ))
  structure(
    list(
      formula = meaning$formula, estimator = estimator, table = as_frame(answer$table), target = answer$target,
      needed = answer$needed, text = answer$text
    ),
    class = "dp_plan"
  )
}

# -- what is asked for ---------------------------------------------------------------------------------------

# The columns of a public table. Text is a factor of the values that occur, as these are public, too.
public_columns <- function(like) {
  like <- check_data(like)
  if (!NROW(like[[1]])) fail("parameter_error", "like must have rows.")
  lapply(as.list(like), function(x) if (is.character(x)) factor(valid_text(x)) else x)
}

described_columns <- function(like, what = "like") {
  names <- names(like)
  fine <- is.list(like) && length(names) && all(nzchar(names)) && !anyDuplicated(names)
  if (!fine) {
    table <- if (what == "like") "a public data frame, or "
    fail("parameter_error", what, " must be ", table, "a list of described columns by name.")
  }
  lapply(stats::setNames(nm = names), function(name) described_column(like[[name]], paste0(what, "$", name)))
}

are_groups <- function(like) {
  is.list(like) && any(vapply(like, function(group) is.list(group) && any(c("share", "columns") %in% names(group)), NA))
}

described_groups <- function(like) {
  lapply(seq_along(like), function(i) {
    group <- like[[i]]
    what <- paste0("like[[", i, "]]")
    fine <- is.list(group) && all(c("share", "columns") %in% names(group)) &&
      all(names(group) %in% c("share", "columns", "correlation")) && !anyDuplicated(names(group)) && is.numeric(group$share) &&
      length(group$share) == 1 && !is.na(group$share)
    if (!fine) fail("parameter_error", what, " must be list(share = 0.2, columns = list(...), correlation = ...).")
    columns <- described_columns(group$columns, paste0(what, "$columns"))
    list(
      share = as.double(group$share), columns = columns,
      correlation = pairs_of(group$correlation, names(columns), paste0(what, "$correlation"))
    )
  })
}

# The columns of all groups, factors with the levels of all.
columns_of_groups <- function(groups) {
  first <- groups[[1]]$columns
  lapply(stats::setNames(nm = names(first)), function(name) {
    of_groups <- lapply(groups, function(group) if (is.list(group$columns[[name]])) unlist(group$columns[[name]]$levels[[1]]))
    levels <- unique(unlist(of_groups))
    if (is.null(levels)) first[[name]] else list(levels = list(as.list(levels)))
  })
}

# A description as the bridge takes it (dpstats/bridge_explore.py).
described_column <- function(value, what) {
  if (is.character(value) && length(value) == 1 && !is.na(value) && nchar(value) <= 80) return(value)
  if (is.numeric(value)) return(list(levels = shares_of(value, what)))
  if (!is.list(value) || !length(value) || !is_path(value[[1]])) {
    fail("parameter_error", what, " must be described as in list(\"normal\", 0, 1) or c(yes = 0.3, no = 0.7).")
  }
  law <- value[[1]]
  rest <- value[-1]
  if (law %in% c("quantiles", "numbers")) {
    if (length(rest) != 1) fail("parameter_error", what, " must be described as in list(\"", law, "\", c(\"1\" = 0.2)).")
    pairs <- shares_of(rest[[1]], what)
    pairs[[1]] <- lapply(pairs[[1]], function(text) suppressWarnings(as.numeric(text)))
    if (anyNA(unlist(pairs[[1]]))) fail("parameter_error", what, " must have numbers as names.")
    return(stats::setNames(list(pairs), law))
  }
  fine <- vapply(rest, function(v) is.numeric(v) && length(v) == 1 && !is.na(v), NA)
  if (!all(fine)) fail("parameter_error", what, " must have single numbers as parameters.")
  has_name <- if (is.null(names(rest))) rep(FALSE, length(rest)) else nzchar(names(rest))
  named <- lapply(rest[has_name], as.double)
  # an empty list would be no dictionary
  list(
    law = law, values = lapply(unname(rest[!has_name]), as.double),
    named = if (length(named)) named else reticulate::dict()
  )
}

shares_of <- function(values, what) {
  fine <- is.numeric(values) && length(values) && !anyNA(values) && !is.null(names(values)) &&
    all(nzchar(names(values))) && !anyDuplicated(names(values))
  if (!fine) fail("parameter_error", what, " must be numbers with distinct names, as in c(yes = 0.3, no = 0.7).")
  list(as.list(enc2utf8(names(values))), as.list(as.double(unname(values))))
}

# What stands for a described column where the formula is read.
prototype <- function(description) {
  levels <- if (is.list(description)) description$levels
  if (is.null(levels)) NA_real_ else factor(NA, unlist(levels[[1]]))
}

estimator_options <- function(options) {
  if (is.null(options)) return(NULL)
  named <- is.list(options) && length(options) && !is.null(names(options)) && all(nzchar(names(options)))
  if (!named) fail("parameter_error", "options must be a list of arguments of the estimator by name.")
  ranges <- options[names(options) == "bounds"]
  c(for_python(options[names(options) != "bounds"]), lapply(ranges, lapply, as.list))
}

# Numbers by column, with Python's names.
by_column <- function(values, what, names, python) {
  if (is.null(values)) return(NULL)
  values <- unlist(values)
  if (!is.numeric(values) || anyNA(values) || is.null(names(values)) || !all(names(values) %in% names)) {
    fail("parameter_error", what, " must be numbers with names among ", paste(names, collapse = ", "), ".")
  }
  stats::setNames(as.list(as.double(values)), python[match(names(values), names)])
}

target_of <- function(target, names, python) {
  if (is.null(target)) return(NULL)
  fine <- is.list(target) && length(target) && all(names(target) %in% names) && !is.null(names(target)) &&
    all(vapply(target, function(v) is.numeric(unlist(v)) && all(names(v) %in% c("se", "width", "power")) && length(names(v)) > 0, NA))
  if (!fine) {
    fail("parameter_error", "target must be a list such as list(x = c(width = 0.5)) or list(x = c(power = 0.8)), of se, width ",
         "or power of coefficients among ", paste(names, collapse = ", "), ".")
  }
  stats::setNames(lapply(unname(target), function(v) lapply(as.list(v), as.double)), python[match(names(target), names)])
}

# A correlation matrix as triples; zeros are what is assumed anyway.
pairs_of <- function(correlation, names, what = "correlation") {
  if (is.null(correlation)) return(NULL)
  if (is.null(names)) fail("parameter_error", "correlation must be NULL where like is a table, or has groups with their own.")
  own <- rownames(correlation)
  fine <- is.matrix(correlation) && is.numeric(correlation) && !anyNA(correlation) && !is.null(own) &&
    identical(own, colnames(correlation)) && all(own %in% names) && isSymmetric(unname(correlation))
  if (!fine) fail("parameter_error", what, " must be a symmetric matrix with names of columns of like.")
  at <- which(upper.tri(correlation) & correlation != 0, arr.ind = TRUE)
  lapply(seq_len(nrow(at)), function(k) list(own[at[k, 1]], own[at[k, 2]], correlation[at[k, 1], at[k, 2]]))
}

# -- results -------------------------------------------------------------------------------------------------

#' @rdname dp_plan
#' @export
print.dp_plan <- function(x, ...) {
  no_others(...)
  cat(x$text, "\n", sep = "")
  invisible(x)
}

#' @rdname dp_plan
#' @export
summary.dp_plan <- function(object, ...) {
  no_others(...)
  object
}

#' @rdname dp_plan
#' @export
as.data.frame.dp_plan <- function(x, row.names = NULL, optional = FALSE, stringsAsFactors = FALSE, ...) {
  no_others(...)
  framed(x$table, row.names, stringsAsFactors)
}

#' @rdname dp_plan
#' @export
tidy.dp_plan <- function(x, ...) {
  no_others(...)
  as_tibble_if_possible(x$table)
}

planned <- c(
  se = "Standard error", width = "Width of the interval", ratio = "Standard error / that without privacy", power = "Power",
  determined = "Chance that the coefficient is determined", refused = "Chance of no release"
)

#' @rdname dp_plan
#' @export
plot.dp_plan <- function(x, y = "se", over = NULL, terms = NULL, ...) {
  no_others(...)
  table <- x$table
  if (!is_one_of(y, names(planned))) {
    fail("parameter_error", "y must be one of ", paste0("\"", names(planned), "\"", collapse = ", "), ".")
  }
  if (is.null(over)) over <- if (length(unique(table$n)) > length(unique(table$eps))) "n" else "eps"
  if (!is_one_of(over, c("n", "eps"))) fail("parameter_error", "over must be \"eps\" or \"n\".")
  all <- unique(table$term)
  shown <- if (is.null(terms)) setdiff(all, "(Intercept)") else chosen(terms, all, "terms")
  if (!length(shown)) shown <- all
  other <- setdiff(c("n", "eps"), over)
  groups <- sort(unique(table[[other]]))
  lines <- expand.grid(group = seq_along(groups), term = seq_along(shown))
  table <- table[table$term %in% shown, ]
  share <- y %in% c("power", "determined", "refused")
  values <- table[[y]][is.finite(table[[y]])]
  if (!length(values)) fail("not_released", "This plan has no ", y, " to draw.")
  graphics::plot.default(
    range(table[[over]]), if (share) 0:1 else range(values), type = "n", log = if (share) "x" else "xy",
    xlab = if (over == "n") "Number of rows" else "eps", ylab = planned[[y]]
  )
  for (i in seq_len(nrow(lines))) {
    part <- table[table$term == shown[lines$term[i]] & table[[other]] == groups[lines$group[i]], ]
    part <- part[order(part[[over]]), ]
    graphics::lines(part[[over]], part[[y]], type = "b", pch = 19, col = lines$term[i], lty = lines$group[i])
  }
  given <- paste(other, "=", format(groups, big.mark = ",", trim = TRUE))
  labels <- shown[lines$term]
  if (length(groups) > 1) labels <- paste(labels, given[lines$group], sep = ", ")
  graphics::legend("topright", labels, col = lines$term, lty = lines$group, pch = 19, bty = "n")
  invisible(x)
}
