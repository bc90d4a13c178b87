# Rows of a logistic and of a Poisson model.
glm_rows <- function(n = 4000) {
  i <- seq_len(n)
  unit <- (i * 0.6180339887) %% 1
  d <- data.frame(x = sin(i) * 1.5 + cos(3 * i), years = 1 + 4 * ((i * 0.7548776662) %% 1))
  d$g <- factor(c("a", "b", "c")[1 + (i * 7) %% 3])
  d$yes <- as.numeric(unit < stats::plogis(-0.5 + d$x))
  d$said <- c("no", "yes")[d$yes + 1]
  d$factor <- factor(d$said, levels = c("no", "yes"))
  d$flag <- d$yes == 1
  d$visits <- stats::qpois(unit, d$years * exp(0.3 * d$x))
  d
}

# A fit put together by hand.
made_glm <- function(link = "logit", ...) {
  fit <- made_fit(...)
  fit$method <- "Logistic regression"
  fit$coefficients <- c("(Intercept)" = -0.5, x = 0.25, gb = 1)
  fit$vcov[] <- 0
  diag(fit$vcov) <- c(0.04, 0.01, NA)
  fit$vcov[3, ] <- fit$vcov[, 3] <- NA
  fit$released <- list(n = 4012.3, deviance = 4921.5, null_deviance = 5234.25, dispersion = if (link == "log") 1.25)
  fit$cov_type <- "nonrobust"
  fit$notes <- character()
  fit$link <- link
  fit$slopes <- list(mean = 0.2, gradient = c(0.01, 0.02, 0.003), noise = 0.001)
  class(fit) <- c("dp_logit", "dpstats_glm", "dpstats")
  fit
}

test_that("the table has deviances, and odds ratios where they are asked for", {
  expect_snapshot({
    made_glm()
    summary(made_glm())
    summary(made_glm("log"), exponentiate = TRUE, level = 0.9)
  })
  fit <- made_glm()
  expect_equal(tidy(fit, exponentiate = TRUE)$estimate, exp(c(-0.5, 0.25, 1)))
  expect_equal(tidy(fit, exponentiate = TRUE)$std.error, tidy(fit)$std.error)
  expect_equal(tidy(fit, exponentiate = TRUE)$conf.low, exp(unname(confint(fit)[, 1])))
  expect_named(tidy(fit, conf.int = FALSE, exponentiate = TRUE), c("term", "estimate", "std.error", "statistic", "p.value"))
  expect_equal(deviance(fit), 4921.5)
  expect_equal(glance(fit)$null.deviance, 5234.25)
  expect_equal(family(fit)$link, "logit")
  expect_equal(family(made_glm("log"))$family, "poisson")
  expect_snapshot(error = TRUE, {
    logLik(fit)
    AIC(fit)
    residuals(fit)
    predict(fit)
    predict(fit, data.frame(x = 1), type = "terms")
    tidy(fit, exponentiate = 1)
    dp_marginal_effects(made_fit())
  })
})

test_that("the response of a logistic regression may be 0 and 1, logical or one of two levels", {
  skip_without_python()
  d <- glm_rows()
  expected <- coef(dp_logit(yes ~ x, d, eps = 3, seed = 1))
  expect_lt(max(abs(expected - coef(glm(yes ~ x, binomial(), d)))), 0.3)
  same <- list(
    flag ~ x, factor ~ x, I(yes > 0) ~ x, as.factor(factor) ~ x, factor(said, levels = c("no", "yes")) ~ x,
    factor(factor, levels = c("no", "yes")) ~ x, factor(yes, levels = 0:1) ~ x, factor(flag, levels = c(FALSE, TRUE)) ~ x
  )
  for (formula in same) {
    expect_identical(coef(dp_logit(formula, d, eps = 3, seed = 1)), expected, info = deparse1(formula))
  }
  expect_identical(coef(dp_logit(said ~ x, d, eps = 3, seed = 1, levels = list(said = c("no", "yes")))), expected)
  # the second level is the event
  turned <- coef(dp_logit(factor(said, levels = c("yes", "no")) ~ x, d, eps = 1e4, seed = 1))
  expect_equal(turned, -coef(dp_logit(said ~ x, d, eps = 1e4, seed = 1, levels = list(said = c("no", "yes")))), tolerance = 1e-3)
  expect_lt(turned[["x"]], 0)
})

test_that("an offset is R's or Python's", {
  skip_without_python()
  d <- glm_rows()
  d[["two words"]] <- d$years
  expected <- dp_poisson(visits ~ x, d, eps = 3, seed = 1, exposure = "years")
  python <- python_reference("poisson", "visits ~ x", d[c("visits", "x", "years")], eps = 3, seed = 1L, exposure = "years")
  expect_identical(unname(coef(expected)), python$estimate)
  same <- list(
    dp_poisson(visits ~ x + offset(log(years)), d, eps = 3, seed = 1),
    dp_poisson(visits ~ offset(log(years)) + x, d, eps = 3, seed = 1),
    dp_poisson(visits ~ x, d, eps = 3, seed = 1, offset = "log(years)"),
    dp_glm(visits ~ x, d, poisson(), eps = 3, seed = 1, exposure = "two words")
  )
  for (fit in same) expect_identical(coef(fit), coef(expected))
  both <- dp_poisson(visits ~ x + offset(log(years)), d, eps = 3, seed = 1, offset = "x")
  expect_equal(coef(both)[["x"]], coef(expected)[["x"]] - 1, tolerance = 0.5)
  expect_equal(deparse1(formula(same[[1]])), "visits ~ x + offset(log(years))")
  # predictions have it, as those of glm()
  new <- d[1:5, ]
  for (fit in c(list(expected), same)) {
    eta <- coef(fit)[["(Intercept)"]] + coef(fit)[["x"]] * new$x + log(new$years)
    expect_equal(unname(predict(fit, new)), eta)
    expect_equal(unname(predict(fit, new, type = "response")), exp(eta))
  }
  expect_equal(augment(expected, new, type.predict = "response")$.fitted, unname(predict(expected, new, type = "response")))
  expect_equal(augment(expected, new)$.fitted, unname(predict(expected, new)))
})

test_that("tables say which offset there is, where the formula does not", {
  said <- function(...) grep("Offset", c(capture.output(...)), value = TRUE)
  fit <- made_glm("log", offset = quote(log(years)))
  expect_identical(said(fit), "Offset: log(years)")
  expect_identical(said(summary(fit)), "Offset: log(years)")
  groups <- made_groups(list(a = fit), c(b = "No.", c = "No."))
  expect_identical(said(groups), "Offset: log(years)")
  expect_identical(said(made_glm("log"), summary(made_glm("log"))), character())
  fit$formula <- y ~ x + g + offset(log(years))
  expect_identical(said(fit, summary(fit)), character())
  fit$offset <- quote(log(years) + z)
  expect_identical(said(fit), "Offset: z")
})

test_that("marginal effects and standard errors of predictions are those of Python", {
  skip_without_python()
  reticulate::py_run_string("
import numpy as np, dpstats

def beside(formula, columns, new, options):
    fit = dpstats.logit(formula, as_frame(columns), **options)
    effects, predicted = fit.marginal_effects(alpha=0.1), fit.get_prediction(as_frame(new))
    return {'effects': as_floats(effects), 'names': list(effects.index), 'terms': list(fit.names),
            'mean': as_floats(predicted.predicted_mean),
            'se': as_floats(predicted.se_mean), 'linear': as_floats(predicted.linear_se),
            'tidy': as_floats(fit.tidy(exponentiate=True)[['estimate', 'conf.low', 'conf.high']]),
            'deviances': [fit.null_deviance, fit.deviance]}
")
  d <- glm_rows()
  d$g <- factor(d$g, levels = c("a", "b", "c", "never"))  # a level that no row has is not determined
  new <- rbind(d[1:4, ], transform(d[1, ], g = "never"))
  fit <- dp_logit(yes ~ x + g, d, eps = 3, seed = 4)
  shown <- d[c("yes", "x", "g")]
  python_reference("median", "x ~ 1", d["x"], eps = 1)  # defines what builds frames in Python
  found <- reticulate::py$beside("yes ~ x + g", lists_of(shown), lists_of(new[c("x", "g")]), list(eps = 3, seed = 4L))
  effects <- dp_marginal_effects(fit, level = 0.9)
  order <- match_columns(effects$term, found$names)
  expect_equal(unname(as.matrix(effects[-1])), matrix(found$effects, ncol = 6, byrow = TRUE)[order, ], tolerance = 1e-7)
  expect_true(is.na(effects$std.error[effects$term == "gnever"]))
  response <- predict(fit, new, type = "response", se.fit = TRUE)
  expect_equal(unname(response$fit), found$mean, tolerance = 1e-12)
  expect_equal(unname(response$se.fit), found$se, tolerance = 1e-10)
  expect_equal(unname(predict(fit, new, se.fit = TRUE)$se.fit), found$linear, tolerance = 1e-10)
  expect_identical(unname(is.na(response$se.fit)), c(FALSE, FALSE, FALSE, FALSE, TRUE))
  ratios <- tidy(fit, exponentiate = TRUE)
  ours <- unname(as.matrix(ratios[c("estimate", "conf.low", "conf.high")]))
  order <- match_columns(ratios$term, found$terms)
  expect_equal(ours, matrix(found$tidy, ncol = 3, byrow = TRUE)[order, ], tolerance = 1e-7)
  expect_equal(c(glance(fit)$null.deviance, deviance(fit)), found$deviances)
})

test_that("dp_glm() dispatches by its family", {
  skip_without_python()
  d <- glm_rows()
  expect_same <- function(fit, other) expect_identical(fit[names(fit) != "call"], other[names(other) != "call"])
  expect_same(dp_glm(yes ~ x, d, binomial(), eps = 3, seed = 1), dp_logit(yes ~ x, d, eps = 3, seed = 1))
  for (family in list(poisson(), poisson, "poisson")) {
    expect_same(dp_glm(visits ~ x, d, family, eps = 3, seed = 1), dp_poisson(visits ~ x, d, eps = 3, seed = 1))
  }
  expect_same(dp_glm(years ~ x, d, gaussian(), eps = 3, seed = 1), dp_ols(years ~ x, d, eps = 3, seed = 1))
})

test_that("groups have fits of their own", {
  skip_without_python()
  d <- glm_rows(6000)
  fits <- dp_glm(yes ~ x, d, binomial(), eps = 3, seed = 1, by = "g")
  expect_s3_class(fits[["a"]], "dpstats_glm")
  one <- predict(fits, d[1:9, ], type = "response")
  expect_true(all(one > 0 & one < 1))
  expect_equal(stats::qlogis(one), predict(fits, d[1:9, ]))
})

test_that("what cannot be fitted is refused", {
  skip_without_python()
  d <- glm_rows(400)
  expect_snapshot(error = TRUE, {
    dp_glm(visits ~ x, d, eps = 1)
    dp_glm(yes ~ x, d, quasipoisson(), eps = 1)
    dp_glm(yes ~ x, d, binomial("probit"), eps = 1)
    dp_glm(yes ~ x, d, "probit", eps = 1)
    dp_glm(yes ~ x, d, d$x, eps = 1)
    dp_glm(yes ~ x, binomial, d, eps = 1)
    dp_logit(g ~ x, d, eps = 1)
    dp_logit(said ~ x, d, eps = 1)
    dp_logit(relevel(factor, ref = "yes") ~ x, d, eps = 1)
    dp_logit(cbind(yes, visits) ~ x, d, eps = 1)
    dp_logit(yes ~ x + offset(years), d, eps = 1)
    dp_poisson(factor ~ x, d, eps = 1)
    dp_poisson(cbind(visits, yes) ~ x, d, eps = 1)
    dp_poisson(visits ~ x, d, eps = 1, offset = "x", exposure = "years")
    dp_poisson(visits ~ x, d, eps = 1, offset = d$x)
    dp_poisson(visits ~ x, d, eps = 1, exposure = "log(")
    dp_poisson(visits ~ x, d, eps = 1, exposure = "year")
    dp_poisson(visits ~ x + g, d, eps = 1, exposure = "years", select = 1)
    dp_poisson(visits ~ x + offset(poly(years, 2)), d, eps = 1)
    dp_ols(visits ~ x + offset(years), d, eps = 1)
    dp_logit(yes ~ x, d, eps = 1, cov_type = "HC1")
    dp_logit(yes ~ x, d)
  })
  fit <- dp_poisson(visits ~ x, glm_rows(2000), eps = 5, exposure = "years")
  expect_error(predict(fit, data.frame(x = 1)), "there is no column 'years'", class = "dpstats_schema_error")
})
