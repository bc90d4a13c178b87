# Marginal means from levels and released locations.

test_that("marginal means are predictions at the released locations, with their errors", {
  skip_without_python()
  skip_if_not_installed("emmeans")
  d <- with_response(some_rows())
  d$g <- droplevels(d$g)
  fit <- dp_ols(y ~ x * g + z + o, d, eps = 8, seed = 1)
  grid <- emmeans::ref_grid(fit)
  expect_identical(grid@levels[c("g", "o")], list(g = levels(d$g), o = levels(d$o)))
  # the middle of the limits that are printed
  limits <- cbind(fit$design$low, fit$design$high)[match(c("x", "z"), names(coef(fit))), ]
  expect_equal(unlist(grid@levels[c("x", "z")]), rowMeans(limits), ignore_attr = TRUE)
  expect_equal(grid@levels$x, median(d$x), tolerance = 0.1)
  means <- summary(emmeans::emmeans(fit, "g", at = list(x = 1, z = 2)))
  new <- expand.grid(g = levels(d$g), o = levels(d$o), x = 1, z = 2)
  X <- design_matrix(fit$design, new)
  L <- t(vapply(levels(d$g), function(g) colMeans(X[new$g == g, ]), X[1, ]))
  expect_equal(means$emmean, drop(L %*% coef(fit)), ignore_attr = TRUE)
  expect_equal(means$SE, sqrt(diag(L %*% vcov(fit) %*% t(L))), ignore_attr = TRUE)
  expect_identical(unique(means$df), Inf)
  pair <- summary(emmeans::emmeans(fit, pairwise ~ o)$contrasts)
  expect_equal(pair$estimate, -coef(fit)[["ohigh"]])
  expect_equal(pair$SE, sqrt(vcov(fit)["ohigh", "ohigh"]))
  # (what is confounded has no degrees of freedom here: a difference that is rounded, over 0)
  joint <- as.data.frame(emmeans::joint_tests(fit, showconf = FALSE))
  expect_setequal(joint[["model term"]], c("x", "g", "z", "o", "x:g"))
  tests <- anova(fit)
  for (term in c("z", "o", "x:g")) {
    found <- joint[joint[["model term"]] == term, ]
    expect_equal(found$F.ratio * found$df1, tests[term, "Chisq"], tolerance = 0.01)
  }
  expect_error(emmeans::joint_tests(fit, cov.reduce = range), "cov.reduce would reduce the private data")
  trend <- summary(emmeans::emtrends(fit, ~g, var = "x", delta.var = 0.1))
  expect_equal(trend$x.trend[1], coef(fit)[["x"]], tolerance = 1e-6)
})

test_that("beyond the limits of a column means and slopes are those of the line, with its errors", {
  skip_without_python()
  skip_if_not_installed("emmeans")
  d <- with_response(some_rows())
  fit <- dp_ols(y ~ x, d, eps = 8, seed = 1)
  found <- summary(emmeans::emmeans(fit, "x", at = list(x = c(1, 1000))))
  X <- cbind(1, c(1, 1000))
  expect_equal(found$emmean, drop(X %*% coef(fit)), ignore_attr = TRUE)
  expect_equal(found$SE, sqrt(diag(X %*% vcov(fit) %*% t(X))), ignore_attr = TRUE)
  trend <- summary(emmeans::emtrends(fit, ~x, var = "x", delta.var = 0.1, at = list(x = 1000)))
  expect_equal(trend$x.trend, coef(fit)[["x"]], tolerance = 1e-6)
  expect_equal(trend$SE, sqrt(vcov(fit)["x", "x"]), tolerance = 1e-6)
})

test_that("links, offsets, responses and numbers as levels", {
  skip_without_python()
  skip_if_not_installed("emmeans")
  d <- with_response(some_rows())
  logit <- dp_logit(I(y > 12) ~ x + f, d, eps = 20, seed = 1)
  found <- summary(emmeans::emmeans(logit, "f", at = list(x = 2), type = "response"))
  expect_equal(found$prob, predict(logit, data.frame(x = 2, f = c(FALSE, TRUE)), type = "response"), ignore_attr = TRUE)
  fits <- list(
    dp_poisson(k ~ x + offset(log(z)), d, eps = 8, seed = 1), dp_poisson(k ~ x, d, eps = 8, exposure = "z", seed = 1),
    dp_poisson(k ~ x + offset(log(z)), d, eps = 8, offset = "x", seed = 1)
  )
  for (fit in fits) {
    found <- summary(emmeans::emmeans(fit, "x", at = list(x = 0:1, z = 2), type = "response"))
    expect_equal(found$rate, predict(fit, data.frame(x = 0:1, z = 2), type = "response"), ignore_attr = TRUE)
  }
  log <- dp_ols(log(z) ~ factor(k, levels = 0:9), d, eps = 8, seed = 1)
  found <- summary(emmeans::emmeans(log, "k", type = "response"))
  expect_equal(found$response, exp(predict(log, data.frame(k = 0:9))), ignore_attr = TRUE)
  declared <- dp_ols(y ~ k + bs(x, knots = c(0, 2), Boundary.knots = c(-3, 5)), d, eps = 8, levels = list(k = 0:9), seed = 1)
  found <- summary(emmeans::emmeans(declared, "k", at = list(x = 1)))
  expect_equal(found$emmean, predict(declared, data.frame(k = 0:9, x = 1)), ignore_attr = TRUE)
})

test_that("contrasts that the formula names change no means", {
  skip_without_python()
  skip_if_not_installed("emmeans")
  d <- with_response(some_rows())
  d$g <- droplevels(d$g)
  formulas <- list(
    y ~ C(g, contr.sum) * x + o, y ~ C(contr = contr.helmert, x = g) + x + o, y ~ C(g, contr.poly) + x + o,
    y ~ stats::C(g, contr.treatment) + x + o, y ~ relevel(g, ref = "b") + x + o, y ~ 0 + C(g, contr.sum) + o + x
  )
  for (formula in formulas) {
    fit <- dp_ols(formula, d, eps = 8, seed = 1)
    found <- summary(emmeans::emmeans(fit, c("g", "o"), at = list(x = 1)))
    new <- expand.grid(g = levels(d$g), o = levels(d$o), x = 1)
    expect_equal(found$emmean, predict(fit, new), ignore_attr = TRUE, info = deparse1(formula))
    expect_setequal(names(emmeans::ref_grid(fit, at = list(x = 1))@levels), c("g", "o", "x"))
  }
  numbers <- dp_ols(y ~ C(k, contr.sum) + x, d, eps = 8, levels = list(k = 0:9))
  found <- summary(emmeans::emmeans(numbers, "k", at = list(x = 1)))
  expect_equal(found$emmean, predict(numbers, data.frame(k = 0:9, x = 1)), ignore_attr = TRUE)
  numbers <- dp_ols(y ~ relevel(k, 3) + x, d, eps = 8, levels = list(k = 0:9))
  found <- summary(emmeans::emmeans(numbers, "k", at = list(x = 1)))
  expect_equal(found$emmean, predict(numbers, data.frame(k = 0:9, x = 1)), ignore_attr = TRUE)
})

test_that("a coefficient that is not determined makes means not estimable", {
  skip_if_not_installed("emmeans")
  block <- function(term, ...) list(term = term, width = 1L, parts = list(list(...)))
  design <- list(
    blocks = list(
      list(term = NULL, width = 1L, parts = list()), block(0L, kind = "number", expr = quote(x), label = "x"),
      block(1L, kind = "levels", levels = c("a", "b"), contrast = matrix(0:1), width = 1L, expr = quote(g), label = "g")
    ),
    order = 1:3, names = c("(Intercept)", "x", "gb"), low = c(-Inf, -1, -Inf), high = c(Inf, 3, Inf)
  )
  fit <- made_fit(cov = diag(c(4, 0.25, NA)), design = design)
  found <- summary(emmeans::emmeans(fit, "g"))
  expect_equal(found$emmean, c(-12.5 + 3.25, NA))
})

test_that("means of the other levels are estimable beside a reference level that left, and their differences", {
  skip_without_python()
  skip_if_not_installed("emmeans")
  set.seed(4)
  n <- 5000
  d <- data.frame(x = rlnorm(n), g = factor(sample(c("a", "b", "c"), n, TRUE, c(0.005, 0.6, 0.395)), c("a", "b", "c")))
  d$y <- 0.5 * d$x + c(3, 0, 1)[d$g] + rnorm(n)
  for (formula in c(y ~ x + g, y ~ x * g)) {
    fit <- dp_ols(formula, d, eps = 3, seed = 1)
    means <- emmeans::emmeans(fit, "g", at = list(x = 1))
    found <- summary(means)
    expect_identical(is.na(found$emmean), c(TRUE, FALSE, FALSE))
    expect_equal(found$SE, predict(fit, data.frame(x = 1, g = c("a", "b", "c")), se.fit = TRUE)$se.fit, ignore_attr = TRUE)
    differences <- summary(pairs(means))
    expect_identical(is.na(differences$estimate), c(TRUE, TRUE, FALSE))
    expect_lt(abs(differences$estimate[3] + 1), 4 * differences$SE[3])
  }
})

test_that("the grid never holds data: what is unknown is asked for", {
  skip_without_python()
  skip_if_not_installed("emmeans")
  d <- with_response(some_rows())
  fit <- dp_ols(y ~ x + g + f, d, eps = 8)
  logit <- dp_logit(I(y > 12) ~ x + f, d, eps = 20)
  expect_snapshot(error = TRUE, {
    emmeans::emmeans(logit, "f")
    emmeans::emmeans(dp_ols(y ~ log(z) + f, d, eps = 8), "f")
    emmeans::emmeans(dp_ols(y ~ x + f, d, eps = 8, winsorize = FALSE), "f")
    emmeans::emmeans(dp_ols(y ~ x + g - 1, d, eps = 8), "g")
    emmeans::ref_grid(fit, data = d)
    emmeans::emmeans(fit, "f", cov.reduce = range)
    emmeans::emmeans(dp_theil_sen(y ~ x, d, eps = 8), "x")
    emmeans::emmeans(dp_median(y ~ 1, d, eps = 8), "1")
  })
  expect_warning(emmeans::emmeans(fit, "f", weights = "proportional"), "no weighting information")
})

test_that("insight and parameters get what was released, and no data", {
  skip_without_python()
  skip_if_not_installed("insight")
  d <- with_response(some_rows())
  fit <- dp_ols(y ~ x + g, d, eps = 5, seed = 1)
  expect_error(insight::get_data(fit), class = "dpstats_not_released")
  expect_identical(deparse1(insight::find_formula(fit)$conditional), "y ~ x + g")
  expect_equal(insight::get_parameters(fit)$Estimate, unname(coef(fit)))
  expect_identical(insight::find_predictors(fit)$conditional, c("x", "g"))
  expect_identical(insight::find_response(fit), "y")
  expect_identical(insight::n_obs(fit), nobs(fit))
  expect_equal(insight::get_statistic(fit)$Statistic, tidy(fit)$statistic)
  expect_identical(insight::get_df(fit), Inf)
  expect_true(insight::model_info(dp_logit(f ~ x, d, eps = 5))$is_logit)
  skip_if_not_installed("parameters")
  table <- parameters::model_parameters(fit, ci = 0.9, exponentiate = TRUE)
  expect_equal(table$CI_low, tidy(fit, conf.level = 0.9, exponentiate = TRUE)$conf.low)
  expect_output(print(table), "Parameter")
  expect_error(parameters::model_parameters(fit, bootstrap = TRUE), "there is no argument 'bootstrap'")
})
