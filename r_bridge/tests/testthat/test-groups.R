test_that("groups are a collection of fits", {
  skip_without_python()
  d <- with_response(some_rows())
  fits <- dp_ols(y ~ x, d, eps = 5, by = "g", seed = 2)
  expect_length(fits, 4)
  expect_equal(names(fits), c("a", "b", "c", "never"))
  expect_s3_class(fits[["a"]], "dp_ols")
  expect_identical(coef(fits)["b", ], coef(fits[["b"]]))
  expect_identical(unname(coef(fits)["never", ]), c(NA_real_, NA_real_))
  expect_equal(nrow(tidy(fits)), 8)
  expect_equal(levels(tidy(fits)$g), names(fits))
  expect_equal(glance(fits)$failed, 1)
  expect_equal(nrow(confint(fits, "x")), 4)
  expect_equal(deparse1(formula(fits)), "y ~ x")
  expect_equal(predict(fits, d[1:9, ])[["2"]], predict(fits[["c"]], d[2, ])[["2"]])
  expect_true(is.na(predict(fits, transform(d[1, ], g = "never"))))
  expect_error(fits[["never"]], class = "dpstats_release_failed")
  expect_no_match(conditionMessage(as.list(fits)$never), "declared type|to_numeric")
  # what noise has brought next to 0 is printed as 0, and stays what it is
  fit <- fits[["a"]]
  fit$coefficients["x"] <- 1e-207
  expect_no_match(utils::capture.output(print(fit), print(summary(fit))), "e-2")
  expect_equal(coef(fit)[["x"]], 1e-207)
  expect_error(anova(fits), "of one fit", class = "dpstats_parameter_error")
  expect_error(drop1(fits), "of one fit", class = "dpstats_parameter_error")
  expect_error(predict(fits, list(x = 1)), "newdata must be a data frame", class = "dpstats_parameter_error")
  expect_snapshot(fits[["nobody"]], error = TRUE)
  expect_identical(coef(dp_ols(y ~ x, d, eps = 5, by = ~g, seed = 2)), coef(fits))
  expect_s3_class(dp_guarantee(fits), "dpstats_guarantee")
})

test_that("logical and numeric groups", {
  skip_without_python()
  d <- with_response(some_rows())
  fits <- dp_median(y ~ 1, d, eps = 5, by = "f", seed = 2)
  expect_equal(names(fits), c("FALSE", "TRUE"))
  expect_type(tidy(fits)$f, "logical")
  fits <- dp_median(y ~ 1, d, eps = 5, by = "k", levels = list(k = 0:3), seed = 2)
  expect_equal(tidy(fits)$k, 0:3)
  expect_snapshot(dp_median(y ~ 1, d, eps = 5, by = "k"), error = TRUE)
  expect_snapshot(dp_median(y ~ 1, transform(d, g = as.character(g)), eps = 5, by = "g"), error = TRUE)
})

test_that("many groups, for which Python starts processes", {
  skip_without_python()
  d <- data.frame(y = sin(1:60000), tract = factor(rep(1:300, 200)))
  fits <- dp_median(y ~ 1, d, eps = 5, by = "tract")
  expect_equal(dim(coef(fits)), c(300, 1))
  expect_false(anyNA(coef(fits)))
})

test_that("what is printed", {
  fits <- made_groups()
  expect_snapshot({
    fits
    print(fits, n = 2)
    summary(fits)
  })
  none <- made_groups(results = list(), failed = c(a = "No.", b = "No.", c = "No."))
  expect_snapshot(none)
})

test_that("each group prints its own notes, and common ones once", {
  fits <- list(a = list(notes = c("Of all.", "Limits 1.")), b = list(notes = c("Of all.", "Limits 2.")))
  expect_identical(notes_of_groups(fits), c("Of all.", "a: Limits 1.", "b: Limits 2."))
  many <- stats::setNames(lapply(1:20, function(i) list(notes = paste("Limits", i))), paste0("g", 1:20))
  expect_identical(notes_of_groups(many)[12:13], c("g12: Limits 12", "8 more notes: fits[[group]]$notes has those of a group."))
  expect_null(notes_of_groups(list()))
})

test_that("groups behave as the list that they look like", {
  fits <- made_groups()
  expect_length(fits, 3)
  expect_identical(seq_along(fits), 1:3)
  expect_identical(names(fits), c("a", "b", "c"))
  seen <- list()
  for (fit in fits) seen <- c(seen, class(fit)[1])
  expect_identical(unlist(seen), c("dp_ols", "dpstats_release_failed", "dp_ols"))
  expect_identical(lapply(fits, coef), list(a = coef(made_fit()), b = NULL, c = coef(made_fit())))
  expect_identical(vapply(fits, inherits, NA, "dpstats"), c(a = TRUE, b = FALSE, c = TRUE))
  expect_identical(as.list(fits)$a, made_fit())
  expect_identical(conditionMessage(as.list(fits)$b), "Too few rows.")
  expect_identical(fits$a, fits[["a"]])
  expect_identical(fits[[3]], fits$c)
  expect_identical(fits[[factor("c", c("c", "a"))]], fits$c)
  expect_identical(fits$by, "g")
  expect_identical(fits$failed, c(b = "Too few rows."))
  expect_named(fits$results, c("a", "c"))
  expect_output(str(fits, max.level = 1), "release_failed")
  few <- fits[c("c", "b")]
  expect_s3_class(few, "dpstats_groups")
  expect_identical(names(few), c("c", "b"))
  expect_identical(few$levels, factor(c("c", "b"), c("c", "b")))
  expect_identical(fits[-2]$failed, fits$failed[0])
  expect_identical(names(fits[c(TRUE, FALSE, TRUE)]), c("a", "c"))
  expect_identical(tidy(fits[1:2])$g, factor(c("a", "a", "a", "b", "b", "b")))
  expect_identical(fits[], fits)
  expect_snapshot(error = TRUE, {
    fits[c("a", "q")]
    fits[["a", "b"]]
    fits[["a", exact = FALSE]]
    fits$b
    fits$q
  })
})

test_that("what is of one fit, or of no fit at all, is refused with its reason", {
  fits <- made_groups()
  withheld <- c(
    "residuals", "fitted", "weights", "hatvalues", "cooks.distance", "rstandard", "rstudent", "influence", "logLik", "AIC", "BIC",
    "deviance", "extractAIC", "model.frame", "model.matrix", "case.names", "add1", "step"
  )
  for (name in withheld) expect_error(get(name)(fits), class = "dpstats_not_released", info = name)
  of_a_group <- paste0("is of one fit: take that of a group, as in NAME(fits[[\"A\"]]), or of each, lapply(fits, NAME).")
  sentence <- function(name) paste0(name, "() ", gsub("NAME", name, of_a_group))
  for (name in c("sigma", "df.residual", "family", "anova", "drop1")) {
    expect_error(get(name)(fits), sentence(name), fixed = TRUE, class = "dpstats_parameter_error")
  }
  classes <- fits
  class(classes) <- c("dp_logit_groups", "dpstats_glm_groups", "dpstats_groups")
  expect_error(deviance(classes), sentence("deviance"), fixed = TRUE)
  expect_identical(variable.names(fits), variable.names(made_fit()))
  expect_identical(labels(fits), "x")
  of_packages <- list(
    car = c("linearHypothesis", "deltaMethod", "Anova", "vif"), lmtest = c("coeftest", "coefci"), multcomp = "glht",
    parameters = "model_parameters"
  )
  for (package in names(of_packages)) if (requireNamespace(package, quietly = TRUE)) {
    for (name in of_packages[[package]]) {
      expect_error(getExportedValue(package, name)(fits, "x = 0"), sentence(name), fixed = TRUE, info = name)
    }
  }
})

test_that("odds ratios of groups have a table", {
  fits <- made_groups()
  expect_error(summary(fits, exponentiate = TRUE), "there is no argument 'exponentiate'", class = "dpstats_parameter_error")
  class(fits) <- c("dp_logit_groups", "dpstats_glm_groups", "dpstats_groups")
  found <- summary(fits, exponentiate = TRUE, level = 0.9)
  expect_equal(found$table[["exp(coef)"]], exp(tidy(fits)$estimate))
  expect_equal(found$table$conf.low, tidy(fits, conf.level = 0.9, exponentiate = TRUE)$conf.low)
  expect_equal(found$table$std.error, tidy(fits)$std.error)
  expect_identical(summary(fits), summary(fits, exponentiate = FALSE))
  expect_error(summary(fits, exponentiate = 1), "exponentiate must be TRUE or FALSE", class = "dpstats_parameter_error")
  expect_snapshot(found)
})

test_that("covariances, counts, plots and predictions of groups", {
  fits <- made_groups()
  expect_identical(vcov(fits), list(a = vcov(made_fit()), b = NULL, c = vcov(made_fit())))
  expect_identical(nobs(fits), c(a = 53928.4, b = NA, c = 53928.4))
  expect_equal(tidy(fits, exponentiate = TRUE)$estimate, exp(tidy(fits)$estimate))
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  expect_identical(plot(fits), fits)
  expect_identical(plot(fits, terms = "x", level = 0.8), fits)
  expect_error(plot(made_groups(list(), c(a = "No.", b = "No.", c = "No."))), class = "dpstats_not_released")
  skip_without_python()
  d <- with_response(some_rows())
  fits <- dp_ols(y ~ x, d, eps = 5, by = "g")
  expect_identical(augment(fits, newdata = d[1:9, ])$.fitted, unname(predict(fits, d[1:9, ])))
  fits <- dp_logit(f ~ x, d, eps = 5, by = "o")
  expect_identical(
    augment(fits, d[1:9, ], type.predict = "response")$.fitted, unname(predict(fits, d[1:9, ], type = "response"))
  )
})

test_that("means of limited values say so in their lines, in tidy() and by group", {
  skip_without_python()
  set.seed(1)
  data <- data.frame(y = exp(6 + 1.2 * rnorm(1000)), g = "a")
  fit <- dp_mean(y ~ 1, data = data, eps = 0.5, seed = 1)
  expect_output(print(fit), "y, limited to \\[")
  expect_output(print(summary(fit)), "y, limited to \\[")
  expect_identical(rownames(coef(summary(fit))), "y")
  table <- tidy(fit)
  expect_true(table$limited.low < table$estimate && table$estimate < table$limited.high)
  fits <- dp_mean(y ~ 1, data = data, eps = 0.5, by = "g", levels = list(g = c("a", "b")), seed = 1)
  expect_true(is.finite(tidy(fits)$limited.high[1]))
})
