# What several releases together may ask for, and what they say together.

#' Divide a budget, and pool releases
#'
#' `dp_split()`: what each of several releases may ask for, so that a [dp_ledger()] takes them all, and not one more.
#' `dp_combine()`: one fit from several of disjoint data, by inverse variance, as in a fixed-effect meta-analysis. Neither costs any
#' privacy.
#'
#' @param total_eps,delta The total of all releases together.
#' @param parts The number of equal parts; or a vector of weights with names, as in `c(main = 2, check = 1)`. Weights are shares of
#'   what adds up: of `eps` under `"basic"`, else of the inverse variance of the noise.
#' @param rule How the releases add up, as the `composition` of the ledger: `"basic"`, for any estimator, or `"zcdp"` or
#'   `"gdp"`, for those all of whose steps are Gaussian: [dp_ols()], [dp_huber()], [dp_adassp()], [dp_boosted_adassp()],
#'   [dp_gradient_descent()], [dp_logit()], [dp_poisson()] and [dp_mean()].
#' @param fits A list of two or more fits of one formula and the same levels, whose standard errors cover sampling and privacy
#'   noise; or [fits of groups][dpstats-groups], of which those that have an estimate are pooled.
#' @param ... Refused.
#'
#' @details
#' That the data of the fits are disjoint is your word; nothing can check it. The largest `eps` and the largest `delta` then hold
#' for all releases together. Releases of overlapping data cost their sum, and their estimates are not independent. Intervals are
#' about coefficients that all the data share: where Cochran's test speaks against that they are too short.
#'
#' @return `dp_split()`: a data frame with a row for each part, and the columns `part`, `eps` and `delta`. `dp_combine()`: a fit as
#'   the first of `fits`, with Cochran's test as `heterogeneity` (`statistic`, `pvalue`, `df`).
#' @examplesIf dp_available() && requireNamespace("ggplot2", quietly = TRUE)
#' dp_split(1, c(main = 2, check = 1), rule = "gdp")
#' fits <- dp_ols(price ~ carat, ggplot2::diamonds, eps = 1, by = "cut")
#' dp_combine(fits)
#' @export
dp_split <- function(total_eps, parts, rule = "basic", delta = 1e-6) {
  given <- for_python(list(
    total_eps = need(total_eps, "total_eps"), parts = need(parts, "parts"), rule = rule, delta = delta
  ))
  if (is.list(given$parts) && is.null(names(given$parts))) {
    fail("parameter_error", "parts must be a positive whole number, or a vector of positive weights with names.")
  }
  found <- unwrap(explore()$split(given$total_eps, given$parts, given$rule, given$delta))
  eps <- as_numbers(found$eps)
  data.frame(
    part = if (is.null(found$part)) seq_along(eps) else as.character(unlist(found$part)), eps = eps,
    delta = as_numbers(found$delta)
  )
}

#' @rdname dp_split
#' @export
dp_combine <- function(fits, ...) {
  if (...length()) fail("parameter_error", "fits must be one list, as in dp_combine(list(fit1, fit2)).")
  by <- if (inherits(fits, "dpstats_groups")) group_facts(fits)$by
  failed <- if (!is.null(by)) as.list(names(group_facts(fits)$failed))
  if (!is.null(by)) fits <- group_facts(fits)$results
  fine <- is.list(fits) && !inherits(fits, "dpstats") && length(fits) > 1 && all(vapply(fits, inherits, NA, "dpstats"))
  if (!fine) fail("parameter_error", "fits must be a list of two fits or more, or fits of groups.")
  texts <- unname(lapply(fits, saved_text))
  # Python's names of the coefficients of all fits, and R's
  in_words <- function(text) {
    python <- unlist(lapply(fits, function(fit) fit$saved$names), use.names = FALSE)
    with_names(text, python, unlist(lapply(fits, function(fit) names(fit$coefficients)), use.names = FALSE))
  }
  answer <- unwrap(explore()$combine(texts, by, as.list(failed)), in_words = in_words)
  fit <- fits[[1]]
  names <- names(fit$coefficients)
  d <- length(names)
  order <- match(fit$saved$names, as.character(answer$names))
  fit$method <- answer$method
  fit$coefficients <- stats::setNames(as_numbers(answer$estimates)[order], names)
  fit$coefficients[is.nan(fit$coefficients)] <- NA
  fit$vcov <- matrix(as_numbers(answer$cov), d, d, dimnames = list(NULL, NULL))[order, order, drop = FALSE]
  dimnames(fit$vcov) <- list(names, names)
  fit["root"] <- list(as_root(answer$root, d, order))
  fit["free"] <- list(NULL)
  fit$released <- lapply(answer$released, as.double)
  fit$notes <- in_words(as.character(answer$notes))
  fit$guarantee <- as_guarantee(answer$guarantee, in_words)
  fit$heterogeneity <- lapply(answer$heterogeneity, as_numbers)
  # list(NULL) keeps the place of what there is none of
  fit["cov_type"] <- list(answer$cov_type)
  fit[c("call", "het", "df")] <- list(NULL)
  if (!is.null(fit$slopes)) fit["slopes"] <- list(NULL)
  if (isTRUE(answer$has_design)) {
    fit$design$low <- as_numbers(answer$low)[order]
    fit$design$high <- as_numbers(answer$high)[order]
  } else {
    fit["design"] <- list(NULL)
  }
  fit$saved <- list(text = answer$saved, names = fit$saved$names)
  fit
}
