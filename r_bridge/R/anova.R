# Tests of the terms of a fit.

#' Test the terms of a private fit
#'
#' One Wald test for each term of the formula but the constant, from the released estimates and their covariance, which holds the
#' privacy noise: at no privacy cost. Each term is tested given all others, as by `car::Anova(fit, type = 3)`.
#'
#' @param object A fit, from [dp_ols()] and its kin.
#' @param test As of [stats::anova()]: `"Chisq"` or `"F"` where these are the tests, as there are no others.
#' @param ... Refused.
#'
#' @details
#' There are no sequential sums of squares, since none were released. Two fits cannot be compared either: the residual sums of two
#' releases carry independent noise, so that their difference is no F or likelihood-ratio test, and can be negative. Test the
#' further terms of the larger fit in place of that.
#'
#' @return A data frame of classes `"anova"` and `"data.frame"` with a row for each term: `Df`, `Chisq` and `Pr(>Chisq)`, or `Df`,
#'   `F` and `Pr(>F)` where tests use Student's t; `NA` for a term with a coefficient that is not determined. An error of class
#'   `"dpstats_not_released"` where standard errors lack the sampling variation.
#' @examplesIf dp_available() && requireNamespace("ggplot2", quietly = TRUE)
#' fit <- dp_ols(price ~ carat + clarity, data = ggplot2::diamonds, eps = 1)
#' anova(fit)
#' try(anova(fit, fit))
#' @export
anova.dpstats <- function(object, ..., test = NULL) {
  if (any(!nzchar(given_names(...)))) fail("parameter_error", one_fit)
  no_others(...)
  made <- if (is.null(object$df)) "Chisq" else "F"
  if (!is.null(test) && !identical(test, made)) {
    fail("parameter_error", "test must be NULL or \"", made, "\", as the tests of this fit are.")
  }
  tests_of_terms(object, unique(object$term_of[!is.na(object$term_of)]), "Wald tests of terms")
}

# The table of Wald tests, for anova() and drop1().
tests_of_terms <- function(object, terms, title) {
  if (object$covers != covers_both || is.null(object$vcov)) {
    why <- if (object$covers == covers_both) {
      "there is no covariance"
    } else if (object$covers == covers_noise) {
      paste("the intervals cover", covers_noise)
    } else {
      sub("[.]$", "", object$covers)
    }
    fail("not_released", "This result has no tests: ", why, ".")
  }
  if (!length(terms)) fail("not_released", "This result has no tests: it has no terms but the constant.")
  found <- lapply(terms, function(term) wald_test(object, which(object$term_of %in% term)))
  column <- function(name) vapply(found, function(test) test[[name]], 0)
  letter <- if (is.null(object$df)) "Chisq" else "F"
  table <- data.frame(Df = column("df"), statistic = column("statistic"), p = column("p"), row.names = terms)
  names(table)[-1] <- c(letter, paste0("Pr(>", letter, ")"))
  lost <- terms[is.na(table[[letter]])]
  structure(
    table,
    heading = c(
      paste0(object$method, " (differentially private): ", title, "\n"),
      paste0("Formula: ", paste(strwrap(deparse1(object$formula), exdent = 4), collapse = "\n")),
      if (length(lost)) paste0("Not determined: ", listed(lost), "."),
      if (!is.null(object$df)) paste("Residual df:", format(object$df)),
      ""
    ),
    class = c("anova", "data.frame")
  )
}

one_fit <- paste(
  "anova() takes one fit, got several. The residual sums of two releases carry independent privacy noise, clips and limits of",
  "columns, so that their difference is no F or likelihood-ratio test, and can be negative. Test the further terms of the larger",
  "fit: anova(large)."
)

# The test that the coefficients at these positions are 0. Rank and inverse are taken in units of standard errors, as in Python.
wald_test <- function(object, at) {
  effect <- object$coefficients[at]
  cov <- object$vcov[at, at, drop = FALSE]
  none <- list(df = length(at), statistic = NA_real_, p = NA_real_)
  if (!all(is.finite(cov)) || !all(is.finite(effect))) return(none)
  root <- factor_of(object)[at, , drop = FALSE]
  unit <- sqrt(if (is.null(root)) pmax(diag(cov), 0) else rowSums(root^2))
  unit[unit == 0] <- 1
  if (is.null(root)) {
    parts <- eigen((cov + t(cov)) / 2 / outer(unit, unit), symmetric = TRUE)
    lengths <- sign(parts$values) * sqrt(abs(parts$values))
    rounding <- sqrt(length(at) * 1e-12) * max(abs(lengths))
    directions <- parts$vectors
  } else {
    parts <- svd(root / unit)
    lengths <- parts$d
    rounding <- length(at) * 1e-14 * max(lengths)
    directions <- parts$u
  }
  kept <- lengths > rounding
  q <- sum(kept)
  if (q == 0 || min(lengths) < -rounding) return(none)
  value <- sum((crossprod(directions[, kept, drop = FALSE], effect / unit) / lengths[kept])^2)
  if (is.null(object$df)) return(list(df = q, statistic = value, p = stats::pchisq(value, q, lower.tail = FALSE)))
  list(df = q, statistic = value / q, p = stats::pf(value / q, q, object$df, lower.tail = FALSE))
}
