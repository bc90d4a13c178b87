# Predictions with standard errors, and tests of terms: those of Python, from released numbers alone.

reference_inference <- function(name, formula, data, new, ...) {
  python_reference("median", "x ~ 1", data[1:100, ], eps = 1)
  reticulate::py_run_string("
def inference(name, formula, columns, new, options):
    fit = getattr(dpstats, name)(formula, as_frame(columns), **options)
    frame = fit.get_prediction(as_frame(new)).summary_frame(alpha=0.1)
    tests = dpstats.anova(fit).table
    return {'prediction': {key: as_floats(frame[key]) for key in frame},
            'terms': list(tests.index), 'tests': {key: as_floats(tests[key]) for key in tests}}
")
  reticulate::py$inference(name, formula, lists_of(data), lists_of(new), list(...))
}

test_that("standard errors and intervals of predictions, and tests of terms, are those of Python", {
  skip_without_python()
  d <- with_response(some_rows(2000))
  new <- d[c(1:6, 500), ]
  found <- reference_inference("ols", "y ~ g + x + o:f", d, new, eps = 5, seed = 2L)
  fit <- dp_ols(y ~ g + x + o:f, d, eps = 5, seed = 2)
  mean <- predict(fit, new, se.fit = TRUE, interval = "confidence", level = 0.9)
  expect_equal(unname(mean$fit), unname(do.call(cbind, found$prediction[c(1, 3, 4)])), tolerance = 1e-10)
  expect_equal(dimnames(mean$fit), list(row.names(new), c("fit", "lwr", "upr")))
  expect_equal(mean$se.fit, stats::setNames(found$prediction$mean_se, row.names(new)), tolerance = 1e-10)
  expect_equal(mean[c("df", "residual.scale")], list(df = Inf, residual.scale = sigma(fit)))
  single <- predict(fit, new, interval = "prediction", level = 0.9)
  expect_equal(unname(single[, -1]), unname(do.call(cbind, found$prediction[5:6])), tolerance = 1e-10)
  expect_equal(predict(fit, new, se.fit = TRUE)$fit, predict(fit, new, type = "link"))
  tests <- anova(fit)
  expect_s3_class(tests, c("anova", "data.frame"), exact = TRUE)
  # R's order of the terms is that of lm()
  order <- match(row.names(tests), found$terms)
  expect_setequal(order, seq_along(found$terms))
  expect_equal(tests$Df, found$tests$df_constraint[order])
  expect_equal(tests$Chisq, found$tests$statistic[order], tolerance = 1e-8)
  expect_equal(tests[["Pr(>Chisq)"]], found$tests$pvalue[order], tolerance = 1e-8)
  means <- predict(dp_logit(f ~ x, d, eps = 5, seed = 1), new, type = "response", se.fit = TRUE)
  other <- reference_inference("logit", "f ~ x", d, new, eps = 5, seed = 1L)$prediction
  expect_equal(unname(means$fit), other$mean, tolerance = 1e-10)
  expect_equal(unname(means$se.fit), other$mean_se, tolerance = 1e-10)
})

test_that("a row beyond the limits of a column has its mean at the limit and no error, as in Python", {
  skip_without_python()
  d <- with_response(some_rows(2000))
  fit <- dp_ols(y ~ x + z + g, d, eps = 5, seed = 2)
  high <- fit$design$high[names(coef(fit)) == "x"]
  new <- data.frame(x = c(1, 1e3, -1e3, high, 1, NA), z = c(2, 2, 2, 2, 1e3, 2), g = factor("a", levels(d$g)))
  found <- reference_inference("ols", "y ~ x + z + g", d, new, eps = 5, seed = 2L)$prediction
  lost <- c(FALSE, TRUE, TRUE, FALSE, TRUE, TRUE)
  mean <- predict(fit, new, se.fit = TRUE, interval = "confidence", level = 0.9)
  expect_identical(is.na(unname(mean$se.fit)), lost)
  expect_equal(unname(mean$se.fit)[!lost], found$mean_se[!lost], tolerance = 1e-10)
  expect_identical(is.nan(found$mean_se), lost)
  expect_identical(is.na(unname(mean$fit[, "lwr"])), lost)
  expect_equal(unname(mean$fit[1:5, "fit"]), found$mean[1:5], tolerance = 1e-10)
  expect_equal(mean$fit[[2, "fit"]], mean$fit[[4, "fit"]])
  expect_identical(is.na(unname(predict(fit, new, interval = "prediction")[, "upr"])), lost)
  free <- dp_ols(y ~ x + z + g, d, eps = 5, seed = 2, winsorize = FALSE)
  expect_false(anyNA(predict(free, new[1:5, ], se.fit = TRUE)$se.fit))
})

test_that("a value beyond declared bounds has the mean at the bound and no error, as in Python", {
  skip_without_python()
  d <- with_response(some_rows(2000))
  bounds <- list(x = c(-3, 3))
  new <- data.frame(x = c(-3.1, -3, 0, 3, 3.1, NA), z = 2)
  for (fit in list(
    dp_ols(y ~ log(x + 4) + z, d, eps = 5, seed = 2, bounds = bounds),
    dp_ols(y ~ x:z + x, d, eps = 5, seed = 2, bounds = bounds, winsorize = FALSE),
    dp_logit(f ~ x + z, d, eps = 5, seed = 1, bounds = bounds)
  )) {
    found <- predict(fit, new, se.fit = TRUE)
    expect_identical(is.na(unname(found$se.fit)), c(TRUE, FALSE, FALSE, FALSE, TRUE, TRUE))
    expect_equal(found$fit[[5]], found$fit[[4]])
    expect_match(fit$notes, "Values beyond declared bounds count as if they were at them: x [-3, 3].", fixed = TRUE, all = FALSE)
  }
  found <- reference_inference("ols", "y ~ x + z", d, new, eps = 5, seed = 2L, bounds = bounds)$prediction
  expect_equal(unname(predict(dp_ols(y ~ x + z, d, eps = 5, seed = 2, bounds = bounds), new, se.fit = TRUE)$se.fit),
               ifelse(is.nan(found$mean_se), NA, found$mean_se), tolerance = 1e-10)
})

test_that("predictions of groups have intervals, too", {
  skip_without_python()
  d <- with_response(some_rows(2000))
  fits <- dp_ols(y ~ x, d, eps = 5, by = "o", seed = 1)
  new <- d[1:5, ]
  ends <- predict(fits, new, interval = "confidence")
  high <- new$o == "high"
  expect_equal(ends[high, ], predict(fits[["high"]], new[high, ], interval = "confidence"))
  expect_snapshot(predict(fits, new, se.fit = TRUE), error = TRUE)
})

# A fit with a design, as the bridge describes one.
fit_with_terms <- function(...) {
  part <- function(factor, kind, ...) list(factor = factor, kind = kind, ...)
  blocks <- list(
    list(term = NULL, width = 1, parts = list()),
    list(term = 0, width = 1, parts = list(part(0, "number"))),
    list(term = 1, width = 2, parts = list(
      part(1, "levels", levels = list("a", "b", "c"), contrast = list(0, 0, 1, 0, 0, 1), width = 2)
    ))
  )
  meaning <- list(factors = list(list(label = "x", expr = quote(x)), list(label = "g", expr = quote(g))), of = 1:2)
  names <- c("(Intercept)", "x", "gb", "gc")
  fit <- made_fit(design = as_design(blocks, meaning, NULL), ...)
  fit$coefficients <- stats::setNames(c(-12.5, 3.25, 2, 0), names)
  fit$term_of <- c(NA, "x", "g", "g")
  fit$vcov <- matrix(diag(c(4, 0.25, 1, 4)), 4, dimnames = list(names, names))
  fit
}

test_that("tests of terms are printed as those of glm()", {
  options <- options(show.signif.stars = FALSE)
  on.exit(options(options))
  fit <- fit_with_terms()
  expect_equal(anova(fit)$Chisq, c(3.25^2 / 0.25, 4))
  expect_equal(anova(fit)[["Pr(>Chisq)"]], pchisq(c(3.25^2 / 0.25, 4), c(1, 2), lower.tail = FALSE))
  expect_equal(anova(fit_with_terms(df = 7))[["Pr(>F)"]][2], pf(2, 2, 7, lower.tail = FALSE))
  lost <- fit
  lost$vcov[4, ] <- lost$vcov[, 4] <- NA
  expect_snapshot({
    anova(fit)
    anova(fit_with_terms(df = 7))
    anova(lost)
  })
  expect_snapshot(error = TRUE, {
    anova(fit, fit)
    anova(fit, test = "F")
    anova(fit_with_terms(covers = "privacy noise only"))
    predict(fit_with_terms(covers = "privacy noise only"), data.frame(x = 1, g = "b"), se.fit = TRUE)
    predict(fit_with_terms(released = list(sigma = NULL)), data.frame(x = 1, g = "b"), interval = "prediction")
  })
  # only what a row uses has to be determined
  se <- predict(lost, data.frame(x = c(1, 1, NA), g = c("b", "c", "b")), se.fit = TRUE)$se.fit
  expect_equal(unname(se), c(sqrt(5.25), NA, NA))
})

test_that("fits of chosen terms, without a constant and with effects of units have tests of terms", {
  skip_without_python()
  d <- with_response(some_rows(3000))
  d$id <- rep(1:1500, 2)
  d$one <- factor("one")
  chosen <- dp_ols(y ~ g + x + z + f, d, eps = 8, select = 2)
  expect_identical(row.names(anova(chosen)), attr(terms(formula(chosen)), "term.labels"))
  expect_identical(row.names(anova(dp_ols(y ~ 0 + g + x:f + one, d, eps = 8))), c("g", "x:f"))
  expect_identical(row.names(anova(dp_ols(y ~ x + f, d, eps = 8, unit = "id", effects = "unit"))), c("x", "f"))
  expect_snapshot(anova(dp_ols(y ~ 1, d, eps = 8)), error = TRUE)
})

test_that("intervals use Student's t where the fit does", {
  ends <- predict(fit_with_terms(df = 7), data.frame(x = 0, g = "a"), interval = "confidence")
  expect_equal(unname(ends[1, 3] - ends[1, 1]), 2 * qt(0.975, 7))
})

test_that("a prediction may be determined where its coefficients are not", {
  set.seed(4)
  n <- 5000
  d <- data.frame(x = rlnorm(n), g = factor(sample(c("a", "b", "c"), n, TRUE, c(0.005, 0.6, 0.395)), c("a", "b", "c")))
  d$y <- 0.5 * d$x + c(3, 0, 1)[d$g] + rnorm(n)
  fit <- dp_ols(y ~ x + g, d, eps = 3, seed = 1)
  expect_identical(unname(is.na(sqrt(diag(vcov(fit))))), c(TRUE, FALSE, TRUE, TRUE))
  se <- predict(fit, data.frame(x = 1, g = c("a", "b", "c")), se.fit = TRUE)$se.fit
  expect_identical(unname(is.na(se)), c(TRUE, FALSE, FALSE))
  expect_lt(max(se[-1]), 0.2)
})

test_that("predictions, tests and means of a cubic in the year are those of the centred one", {
  d <- 4
  # coefficients of powers of c = year - 2005, as those of powers of the year
  back <- outer(0:3, 0:3, function(i, j) choose(j, i) * (-2005)^pmax(j - i, 0))
  centred <- diag(c(0.1, 0.02, 2e-3, 3e-4)) %*% chol(0.3 + diag(0.7, d))
  beta <- c(140, -0.5, 0.01, 0.02)
  names <- c("(Intercept)", "t", "I(t^2)", "I(t^3)")
  fit_of <- function(root, beta, vcov = tcrossprod(root)) {
    fit <- made_fit(root = root)
    fit$coefficients <- stats::setNames(beta, names)
    fit$vcov <- matrix(vcov, d, d, dimnames = list(names, names))
    fit
  }
  here <- fit_of(centred, beta)
  there <- fit_of(back %*% centred, drop(back %*% beta))
  at <- outer(c(-10, 0, 12), 0:3, `^`)
  X <- outer(2005 + c(-10, 0, 12), 0:3, `^`)
  expect_equal(linear_errors(there, X), linear_errors(here, at), tolerance = 1e-5)
  expect_equal(linear_errors(here, at), sqrt(diag(at %*% here$vcov %*% t(at))))
  # the slopes without the constant are other hypotheses, all coefficients the same one
  expect_equal(wald_test(there, 1:4), wald_test(here, 1:4), tolerance = 1e-4)
  expect_equal(wald_test(there, 2:4), wald_test(here, 2:4), tolerance = 1e-4)
  basis <- well_conditioned(list(X = X, bhat = there$coefficients, V = there$vcov), factor_of(there), rep(TRUE, 4))
  expect_equal(drop(basis$X %*% basis$bhat), drop(at %*% beta), tolerance = 1e-6)
  expect_equal(sqrt(diag(basis$X %*% basis$V %*% t(basis$X))), linear_errors(here, at), tolerance = 1e-5)
  # a fit of an older version, or with another covariance: none rather than a wrong one
  expect_identical(linear_errors(utils::modifyList(there, list(root = NULL)), X), rep(NA_real_, 3))
  expect_null(factor_of(fit_of(2 * centred, beta, vcov = here$vcov)))
  expect_equal(linear_errors(fit_of(2 * centred, beta, vcov = here$vcov), at), linear_errors(here, at))
})
