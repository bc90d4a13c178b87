# The private estimators. Each names its own parameters; R/estimate.R does the rest.

# `also` are names of the argument elsewhere.
need <- function(value, name, also = character()) {
  if (!missing(value)) return(value)
  given <- as.character(names(sys.call(-1)))
  alike <- given[(startsWith(given, name) & given != name) | given %in% also]
  meant <- if (length(alike) > 0) paste0("; did you mean ", name, " by ", alike[1], "?") else "."
  fail("parameter_error", name, " is missing and has no default", meant)
}

#' Private least squares
#'
#' Least squares with nothing to tune, and no bounds of the data to guess. Columns are standardised and
#' whitened privately, and noisy gradient rounds with clipped contributions lead to the least-squares fit. The call to
#' start with.
#'
#' @param formula A formula such as `price ~ carat + clarity`; see [dp_formula].
#' @param data A data frame (or list of columns), or the path of a Parquet, Feather or CSV file, which is read in
#'   batches by Python.
#' @param eps Privacy budget; positive. It has no default.
#' @param delta In (0, 1); far below one over the number of rows.
#' @param winsorize Whether to move the values of numeric columns into limits, which `summary()` names: `"auto"` does so in
#'   [predict()] alone and chooses the limits privately, `TRUE` in the fit, too, `FALSE` nowhere.
#' @param select A number: choose that many terms privately first ([dp_select_features()]), with a small part of the budget,
#'   and fit them.
#' @param cov_type Standard errors for errors whose variance depends on the columns (`"robust"`) or is the same for all rows
#'   (`"nonrobust"`), or by a parametric `"bootstrap"`: the last steps are simulated from released values, and the estimates
#'   are corrected for the bias that shows there. It costs no privacy, and cannot mend what the release does not hold.
#' @param bounds Public ranges of numeric columns, as in `list(age = c(0, 120))`. Values outside are moved to the nearer
#'   end. Never needed here, and they cost nothing.
#' @param levels Public levels of columns that are not factors, as in `list(cut = c("Fair", "Good"))`.
#' @param by Name of a column with declared levels: one fit for each group, each with the whole budget.
#' @param unit Name of a column such as `"patient_id"`: protect all rows of one of its values, and not one row alone. Rows
#'   without a value are not used. `dp_ols()`, `dp_huber()`, `dp_adassp()`, `dp_boosted_adassp()`, `dp_logit()`,
#'   `dp_poisson()` and `dp_tukey_em()` use all rows of a unit, and standard errors are cluster-robust; the others use one
#'   row of each, drawn at random.
#' @param weights Weights of rows, as of a survey: a column, as in [lm()], or its name, or an expression, in quotes for a file. The fit
#'   is weighted least squares with robust standard errors. Weights are as private as the rest of a row, and need no bound; a row
#'   with a negative or missing one is not used. By default every `"row"` counts the same; with `unit` also `"unit"`: the rows of a
#'   unit share the weight of one.
#' @param effects `"unit"`: fixed effects of the units, the within estimator. There is no constant then.
#' @param ledger A [dp_ledger()], or the path of one, which is charged before any row is read.
#' @param seed For simulation only: the release then protects nobody, and says so. Neither R's nor NumPy's own seed is
#'   touched or used.
#' @param ... Refused. `subset`, `na.action`, `offset` and `contrasts` of [lm()] say what to do in their place.
#'
#' @section Privacy:
#' `(eps, delta)`-differential privacy; neighbouring data sets differ by one record added or removed. Rows with a missing
#' value (`NA` of any kind, `NaN`, infinite values) or an undeclared level are not used, and nothing says so. The number
#' of rows is private. The proofs are in the Python package, in `docs/privacy/`.
#'
#' @section Standard errors:
#' They add up sampling (a sandwich of released matrices, or with `cov_type = "nonrobust"` that of homoskedastic errors),
#' privacy noise, and bounds on what the limit of a row's contribution takes off and on what the noise keeps the fit from
#' reaching. Where there is no such bound a coefficient is not determined: `NA`, and `n.d.` in the table. Nothing is known
#' of a few rows very far out, and no interval covers what they may do. [dp_het_test()] tests for constant error variance.
#'
#' @return A fit of class `"dpstats"`, see [dpstats-methods], [summary()][summary.dpstats] and
#'   [tidy()][dpstats-tidiers]; with `by`, [a collection of fits][dpstats-groups]. An error of class
#'   `"dpstats_release_failed"` if a private test fails, which has a `guarantee` since it has been paid for.
#'
#' @seealso [dp_tukey_em()], which is robust; [dp_huber()]; [dp_deepest_regression()]; [dp_adassp()].
#' @examplesIf dp_available() && requireNamespace("ggplot2", quietly = TRUE)
#' fit <- dp_ols(price ~ carat + clarity, data = ggplot2::diamonds, eps = 1)
#' summary(fit)
#' confint(fit)
#' @export
dp_ols <- function(formula, data, eps, delta = 1e-6, winsorize = "auto", select = NULL, cov_type = "robust",
                   bounds = NULL, levels = NULL, by = NULL, unit = NULL, weights = "row", effects = NULL, ledger = NULL,
                   seed = NULL, ...) {
  own <- list(
    eps = need(eps, "eps"), delta = delta, winsorize = winsorize, select = select, cov_type = cov_type, effects = effects, seed = seed
  )
  run("ols", formula, data, own, ledger, levels, bounds, by, unit, weights = read_weights(substitute(weights), weights, data))
}

#' Private regression by TukeyEM
#'
#' Least squares is fitted on many random disjoint subsets of the rows, and the exponential mechanism draws a point that
#' lies deep among the fits. There is nothing to tune and no bound to guess, and outliers in single subsets count for
#' little; it needs more rows than [dp_ols()].
#'
#' @inheritParams dp_ols
#' @param models Number of subsets; by default from a private count of the rows.
#' @param whiten Measure depth along the axes of a privately whitened design. `FALSE` uses the columns as they are, and
#'   gives no standard errors.
#' @param neighbours Whether neighbouring data sets differ by one record more or less (`"add-remove"`), or by one record
#'   replaced (`"substitution"`).
#'
#' @section Privacy:
#' `(eps, delta)`-differential privacy, `neighbours` as asked.
#'
#' @section Standard errors:
#' They cover sampling and privacy noise, whatever the variances of the errors, with an allowance for skewed errors that a
#' simulation study has set and no theorem, and for skewness that noise may hide: with some 20,000 rows at eps = 1 that may be
#' most of them, and with fewer than some 8,000 for a line nothing is determined. They fall short where the effect of a skewed
#' column differs by another and the formula has no product. There are none if subsets have too few rows; a coefficient that
#' depends on what the noise hides is not determined (`NA`, and `n.d.` in the table).
#'
#' @inherit dp_ols return
#' @examplesIf dp_available() && requireNamespace("ggplot2", quietly = TRUE)
#' fit <- dp_tukey_em(price ~ carat + clarity, data = ggplot2::diamonds, eps = 1)
#' summary(fit)
#' @export
dp_tukey_em <- function(formula, data, eps, delta = 1e-6, models = NULL, whiten = TRUE, select = NULL,
                        neighbours = "add-remove", bounds = NULL, levels = NULL, by = NULL, unit = NULL, ledger = NULL, seed = NULL, ...) {
  own <- list(
    eps = need(eps, "eps"), delta = delta, models = models, whiten = whiten, select = select, neighbours = neighbours,
    seed = seed
  )
  run("tukey_em", formula, data, own, ledger, levels, bounds, by, unit)
}

#' Private regression from noisy moments or gradients
#'
#' `dp_adassp()`: ridge regression on a noisy Gram matrix, the ridge being as large as the noise makes necessary.
#' `dp_boosted_adassp()`: rounds of it on the residuals. `dp_gradient_descent()`: a baseline for comparisons, whose result
#' depends on parameters that cannot privately be chosen by looking at results. [dp_ols()] is more accurate than all.
#'
#' @inheritParams dp_ols
#' @param standardize Spend a part of the budget on a private location and scale of every column without `bounds`.
#'   `FALSE` takes the columns in their own units.
#' @param clip Norm to which rows (`dp_gradient_descent()`: gradients) are shortened.
#' @param rounds Number of rounds.
#' @param steps Number of steps.
#' @param learning_rate,schedule The learning rate of step `t`, constant or divided by `t` or its square root:
#'   `"constant"`, `"1/t"`, `"1/sqrt(t)"`.
#'
#' @inheritSection dp_ols Privacy
#' @inherit dp_ols return
#' @examplesIf dp_available() && requireNamespace("ggplot2", quietly = TRUE)
#' dp_adassp(price ~ carat + table, data = ggplot2::diamonds, eps = 1)
#' @export
dp_adassp <- function(formula, data, eps, delta = 1e-6, standardize = TRUE, clip = NULL, select = NULL,
                      cov_type = "robust", bounds = NULL, levels = NULL, by = NULL, unit = NULL, ledger = NULL, seed = NULL, ...) {
  own <- list(
    eps = need(eps, "eps"), delta = delta, standardize = standardize, clip = clip, select = select, cov_type = cov_type,
    seed = seed
  )
  run("adassp", formula, data, own, ledger, levels, bounds, by, unit)
}

#' @rdname dp_adassp
#' @export
dp_boosted_adassp <- function(formula, data, eps, delta = 1e-6, standardize = TRUE, clip = NULL, rounds = NULL,
                              select = NULL, cov_type = "robust", bounds = NULL, levels = NULL, by = NULL, unit = NULL,
                              ledger = NULL, seed = NULL, ...) {
  own <- list(
    eps = need(eps, "eps"), delta = delta, standardize = standardize, clip = clip, rounds = rounds, select = select,
    cov_type = cov_type, seed = seed
  )
  run("boosted_adassp", formula, data, own, ledger, levels, bounds, by, unit)
}

#' @rdname dp_adassp
#' @export
dp_gradient_descent <- function(formula, data, eps, delta = 1e-6, clip = 2, steps = 40, learning_rate = 0.25,
                                schedule = "constant", standardize = TRUE, bounds = NULL, levels = NULL, by = NULL, unit = NULL,
                                ledger = NULL, seed = NULL, ...) {
  own <- list(
    eps = need(eps, "eps"), delta = delta, clip = clip, steps = steps, learning_rate = learning_rate,
    schedule = schedule, standardize = standardize, seed = seed
  )
  run("gradient_descent", formula, data, own, ledger, levels, bounds, by, unit)
}

#' Private Huber regression
#'
#' Like least squares for small residuals and like median regression for large ones, so that outliers of the response
#' count for little.
#'
#' @inheritParams dp_ols
#' @param c Residuals beyond `c` times the residual scale count as if they were there. 1.345 is 95 % efficient for normal
#'   errors; towards 0 the fit goes to median regression.
#' @param rounds Number of rounds, at least 6; by default 14.
#'
#' @inheritSection dp_ols Privacy
#' @section Standard errors:
#' Those of an M-estimator whose scale is known, otherwise as of [dp_ols()].
#' @inherit dp_ols return
#' @examplesIf dp_available() && requireNamespace("ggplot2", quietly = TRUE)
#' dp_huber(price ~ carat, data = ggplot2::diamonds, eps = 1)
#' @export
dp_huber <- function(formula, data, eps, delta = 1e-6, c = 1.345, rounds = NULL, select = NULL, cov_type = "robust",
                     bounds = NULL, levels = NULL, by = NULL, unit = NULL, ledger = NULL, seed = NULL, ...) {
  own <- list(
    eps = need(eps, "eps"), delta = delta, c = c, rounds = rounds, select = select, cov_type = cov_type, seed = seed
  )
  run("huber", formula, data, own, ledger, levels, bounds, by, unit)
}

#' Private deepest regression
#'
#' A robust line through conditional medians: the line that is hardest to turn into a vertical one without passing many
#' observations. It withstands outliers in the response and in the covariate.
#'
#' @inheritParams dp_ols
#' @param formula `y ~ x`: one covariate and a constant. For more covariates there is [dp_medsweep()].
#' @param delta In (0, 1), far below one over the number of rows; not used by `mechanism = "exponential"`.
#' @param mechanism `"exponential"` draws a deep line; `"smooth"` adds noise to the deepest.
#' @param bounds Public ranges of columns. Those of the response bound the line; they may be loose. Without them
#'   `"exponential"` wants a hundred rows or more; `"smooth"` finds out by a private test whether they are needed, which
#'   takes one or two thousand.
#' @param at Two public values of the covariate, typical of it, by which a line is described. By default the quarter points
#'   of its bounds; without bounds a private centre plus and minus a private scale (13 to 20 % of `eps`).
#' @param intervals What the intervals of `"exponential"` assume. `"iid"`: for the slope, errors independent of the
#'   covariate. `"median-zero"`: errors of median 0 at every value of the covariate, whatever their scale; wider. `NULL`
#'   releases none and leaves their share of `eps` to the line.
#' @param guarantee For `"smooth"`: `"approximate"`, or `"random"` for the variant of Cumings-Menon (2022), whose proof does
#'   not hold as published.
#' @param gamma For `guarantee = "random"`: the share of data sets without promise.
#'
#' @section Privacy:
#' `"exponential"`: pure `eps`-differential privacy; `"smooth"`: `(eps, delta)`. Neighbouring data sets differ by one record
#' replaced, the number of rows being public. With `by`, the group of each record is public too.
#'
#' @section Intervals:
#' With `"exponential"` they reach from the line to either side by private half-widths, at 95 %, and cover sampling and privacy noise,
#' whatever the law of the errors. That of the intercept assumes errors of median 0 at every value of the covariate. With few
#' rows or a small `eps` they are wide, or infinite. With `"smooth"` they cover the privacy noise alone: they are about the
#' deepest line of these data.
#' @inherit dp_ols return
#' @examplesIf dp_available() && requireNamespace("ggplot2", quietly = TRUE)
#' dp_deepest_regression(price ~ carat, data = ggplot2::diamonds[1:2000, ], eps = 2)
#' @export
dp_deepest_regression <- function(formula, data, eps, delta = 1e-6, mechanism = "exponential", at = NULL,
                                  intervals = "iid", guarantee = "approximate", gamma = NULL, bounds = NULL,
                                  levels = NULL, by = NULL, unit = NULL, ledger = NULL, seed = NULL, ...) {
  own <- list(
    eps = need(eps, "eps"), delta = delta, mechanism = mechanism, at = at, intervals = intervals,
    guarantee = guarantee, gamma = gamma, seed = seed
  )
  run("deepest_regression", formula, data, own, ledger, levels, bounds, by, unit)
}

#' Private regression by medians, Medsweep
#'
#' Each covariate is centred at its median and swept on the ones before it by median slopes, and so is the response.
#' Robust, for any number of covariates.
#'
#' @inheritParams dp_ols
#' @param variant `"sequential"`: a private median for every step. `"joint"`: noise of smooth sensitivity; needs bounds of
#'   all columns.
#' @param clamp For `"joint"`: the slopes and residuals are moved into this range.
#'
#' @section Privacy:
#' Neighbouring data sets differ by one record replaced, the number of rows being public. `"sequential"`: pure `eps`, or
#' `(eps, delta)` where that allows more for each median. `"joint"`: `(eps, delta)`.
#'
#' @section Intervals:
#' `"joint"` with one covariate: the privacy noise alone. Otherwise none.
#' @inherit dp_ols return
#' @examplesIf dp_available() && requireNamespace("ggplot2", quietly = TRUE)
#' dp_medsweep(price ~ carat + depth, data = ggplot2::diamonds[1:4000, ], eps = 2)
#' @export
dp_medsweep <- function(formula, data, eps, delta = 1e-6, variant = "sequential", clamp = NULL, bounds = NULL,
                        levels = NULL, by = NULL, unit = NULL, ledger = NULL, seed = NULL, ...) {
  own <- list(eps = need(eps, "eps"), delta = delta, variant = variant, clamp = clamp, seed = seed)
  run("medsweep", formula, data, own, ledger, levels, bounds, by, unit)
}

#' Private simple regression: the usual baselines
#'
#' `dp_theil_sen()`: medians of the lines through random pairs of rows. `dp_noisy_stats()`: a noisy covariance over a noisy
#' variance, with public bounds.
#'
#' @inheritParams dp_ols
#' @param formula `y ~ x`: one response and one numeric column.
#' @param matchings How often the rows are paired. More pairs vary less, at no cost in privacy noise.
#' @param bounds Public ranges of the columns; `dp_noisy_stats()` needs both.
#'
#' @section Privacy:
#' Pure `eps`-differential privacy; neighbouring data sets differ by one record replaced, the number of rows being public.
#' There are no standard errors.
#' @inherit dp_ols return
#' @examplesIf dp_available() && requireNamespace("ggplot2", quietly = TRUE)
#' dp_theil_sen(price ~ carat, data = ggplot2::diamonds, eps = 1, matchings = 2)
#' bounds <- list(price = c(0, 20000), carat = c(0, 5))
#' dp_noisy_stats(price ~ carat, data = ggplot2::diamonds, eps = 1, bounds = bounds)
#' @export
dp_theil_sen <- function(formula, data, eps, matchings = 10, bounds = NULL, levels = NULL, by = NULL, unit = NULL, ledger = NULL,
                         seed = NULL, ...) {
  run("theil_sen", formula, data, list(eps = need(eps, "eps"), matchings = matchings, seed = seed), ledger, levels, bounds,
      by, unit)
}

#' @rdname dp_theil_sen
#' @export
dp_noisy_stats <- function(formula, data, eps, bounds = NULL, levels = NULL, by = NULL, unit = NULL, ledger = NULL, seed = NULL, ...) {
  run("noisy_stats", formula, data, list(eps = need(eps, "eps"), seed = seed), ledger, levels, bounds, by, unit)
}

#' Private median and quantiles
#'
#' The median, or another quantile, of a column, with an interval that holds for any distribution. No bounds
#' are needed.
#'
#' @inheritParams dp_ols
#' @param formula `income ~ 1`; the left side may be transformed, as in `log(income) ~ 1`.
#' @param delta Used by `mechanism = "smooth"` without bounds, for its test.
#' @param mechanism `"exponential"`: the exponential mechanism on floating-point numbers. `"smooth"`: the lower median
#'   with noise of smooth sensitivity, symmetric about it: Student noise with two degrees of freedom, which has no variance, or
#'   Laplace noise for `guarantee = "random"`.
#' @param alpha One minus the confidence of the released interval. `NULL` releases none and spends all of `eps` on the
#'   estimate; otherwise 65 % of it pays for the interval.
#' @param guarantee,gamma As in [dp_deepest_regression()], for `"smooth"`.
#' @param bounds Public range of the column. Never needed; `"smooth"` without bounds tests privately whether they can be
#'   done without, and may fail below a few thousand rows.
#' @param q In (0, 1): which quantile.
#'
#' @section Privacy:
#' `"exponential"`, and quantiles: pure `eps`-differential privacy, one record added or removed. `"smooth"`:
#' pure `eps` with bounds and `(eps, delta)` without, one record replaced, the number of rows being public. `"smooth"` has
#' no interval, or with `guarantee = "random"` one that covers the privacy noise alone.
#' @inherit dp_ols return
#' @examplesIf dp_available() && requireNamespace("ggplot2", quietly = TRUE)
#' dp_median(price ~ 1, data = ggplot2::diamonds, eps = 1)
#' dp_quantile(price ~ 1, data = ggplot2::diamonds, q = 0.9, eps = 1)
#' dp_median(price ~ 1, data = ggplot2::diamonds, eps = 1, by = "cut")
#' @export
dp_median <- function(formula, data, eps, delta = 1e-6, mechanism = "exponential", alpha = 0.05,
                      guarantee = "approximate", gamma = NULL, bounds = NULL, levels = NULL, by = NULL, unit = NULL, ledger = NULL,
                      seed = NULL, ...) {
  own <- list(
    eps = need(eps, "eps"), delta = delta, mechanism = mechanism, alpha = alpha, guarantee = guarantee, gamma = gamma,
    seed = seed
  )
  run("median", formula, data, own, ledger, levels, bounds, by, unit)
}

#' @rdname dp_median
#' @export
dp_quantile <- function(formula, data, q, eps, alpha = 0.05, bounds = NULL, levels = NULL, by = NULL, unit = NULL, ledger = NULL,
                        seed = NULL, ...) {
  own <- list(q = need(q, "q", also = "probs"), eps = need(eps, "eps"), alpha = alpha, seed = seed)
  run("quantile", formula, data, own, ledger, levels, bounds, by, unit)
}

#' Private Tukey median
#'
#' The deepest point of several columns together. The Tukey median follows rotations of the data and withstands up to a
#' third of outliers.
#'
#' @inheritParams dp_ols
#' @param delta In (0, 1), far below one over the number of rows; not used by `mechanism = "exponential"`.
#' @param mechanism `"exponential"` draws a deep point; `"smooth"`, for two columns, adds noise to the deepest, as in
#'   Cumings-Menon (2022).
#' @param guarantee For `"smooth"`: `"approximate"`, or `"random"` for the variant of Cumings-Menon (2022), whose proof does
#'   not hold as published.
#' @param gamma For `guarantee = "random"`: the share of data sets without promise.
#' @param formula `cbind(height, weight) ~ 1`: two or more columns. For one there is [dp_median()].
#' @param scale Public typical spreads of the columns, as in `list(height = 8, weight = 12)`, in which they are measured. By
#'   default the widths of the bounds; without bounds, private scales (25 % of `eps`; with `"smooth"` 15 %).
#' @param directions For `"exponential"`: depth is measured over this many random public directions; 200 by default.
#' @param intervals Whether `"exponential"` releases 95 % intervals, with 45 to 70 % of `eps`.
#' @param bounds Public ranges of all columns, or of none. They may be loose. `"exponential"` wants some 220 rows a column
#'   with them and 370 without at `eps = 1`, in inverse proportion to `eps`; with fewer the point may be far from the data, and
#'   fewer than 146 and 273 are refused. With `intervals = FALSE` these are 120 and 200, and 80 and 150. `"smooth"` finds out by
#'   a private test whether bounds are needed, which takes one or two thousand.
#'
#' @section Privacy:
#' `"exponential"`: pure `eps`-differential privacy; `"smooth"`: `(eps, delta)`-differential privacy. Neighbouring data sets
#' differ by one record replaced, the number of rows being public. With `by`, the group of each record is public too.
#' @section Intervals:
#' With `"exponential"` they reach from the point to either side by private half-widths, and cover the median of each column at 95 %,
#' whatever its law: the centre's coordinate if the law is symmetric about a centre. Public bounds end them. With `"smooth"` they
#' cover the privacy noise alone.
#' @inherit dp_ols return
#' @examplesIf dp_available()
#' bounds <- list(eruptions = c(0, 10), waiting = c(0, 200))
#' dp_tukey_median(cbind(eruptions, waiting) ~ 1, data = faithful, eps = 4, bounds = bounds)
#' @export
dp_tukey_median <- function(formula, data, eps, delta = 1e-6, mechanism = "exponential", scale = NULL,
                            directions = NULL, intervals = TRUE, guarantee = "approximate", gamma = NULL,
                            bounds = NULL, levels = NULL, by = NULL, unit = NULL, ledger = NULL, seed = NULL, ...) {
  own <- list(
    eps = need(eps, "eps"), delta = delta, mechanism = mechanism, scale = scale, directions = directions,
    intervals = intervals, guarantee = guarantee, gamma = gamma, seed = seed
  )
  run("tukey_median", formula, data, own, ledger, levels, bounds, by, unit)
}

#' Private mean, and a private bounding box
#'
#' `dp_mean()`: means of one or several columns. `dp_bounding_box()`: for every column the radius `r` of the box `[-r, r]`
#' that holds about a share of the rows.
#'
#' @inheritParams dp_ols
#' @param formula `income ~ 1`, or `cbind(income, age) ~ 1` for several columns.
#' @param clip Distance from the estimate, in units of a private scale, beyond which values count as if they were there.
#' @param rounds Number of rounds; the later half is averaged.
#' @param share In (0, 1): of the rows, for each column by itself.
#'
#' @section Privacy:
#' `(eps, delta)`-differential privacy; neighbouring data sets differ by one record added or removed.
#' @section Standard errors:
#' Those of the mean cover sampling and privacy noise; they say nothing about values beyond the clip.
#' @inherit dp_ols return
#' @examplesIf dp_available() && requireNamespace("ggplot2", quietly = TRUE)
#' dp_mean(cbind(price, carat) ~ 1, data = ggplot2::diamonds, eps = 1)
#' dp_bounding_box(price ~ 1, data = ggplot2::diamonds, eps = 1)
#' @export
dp_mean <- function(formula, data, eps, delta = 1e-6, clip = NULL, rounds = NULL, bounds = NULL, levels = NULL, by = NULL, unit = NULL,
                    ledger = NULL, seed = NULL, ...) {
  own <- list(eps = need(eps, "eps"), delta = delta, clip = clip, rounds = rounds, seed = seed)
  run("mean", formula, data, own, ledger, levels, bounds, by, unit)
}

#' @rdname dp_mean
#' @export
dp_bounding_box <- function(formula, data, eps, delta = 0, share = 0.95, bounds = NULL, levels = NULL, by = NULL, unit = NULL,
                            ledger = NULL, seed = NULL, ...) {
  own <- list(eps = need(eps, "eps"), delta = delta, share = share, seed = seed)
  run("bounding_box", formula, data, own, ledger, levels, bounds, by, unit)
}
