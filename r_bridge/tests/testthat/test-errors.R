# Errors of Python arrive as conditions, in R's words, without a trace and without data.

test_that("parameters", {
  skip_without_python()
  d <- with_response(some_rows(300))
  b <- list(x = c(-5, 8), y = c(-20, 40))
  expect_snapshot(error = TRUE, {
    dp_ols(y ~ x, d, eps = -1)
    dp_ols(y ~ x, d, eps = "one")
    dp_ols(y ~ x, d, eps = c(1, 2))
    dp_ols(y ~ x, d, eps = 1, delta = 2)
    dp_ols(y ~ x, d, eps = 1, winsorize = "yes")
    dp_ols(y ~ x, d, eps = 1, select = 0)
    dp_ols(y ~ x + z, d, eps = 1, select = 1, by = "g")
    dp_ols(y ~ x, d, eps = 1, seed = 1.5)
    dp_ols(y ~ x, d, eps = 1, seed = -1)
    dp_ols(y ~ x, d, eps = 1, bounds = list(x = c(1, 0)))
    dp_ols(y ~ x + g, d, eps = 1, bounds = list(g = c(0, 1)))
    dp_ols(y ~ x + g, d, eps = 1, levels = list(g = c("a", "a")))
    dp_ols(cbind(y, x) ~ z, d, eps = 1)
    dp_tukey_em(y ~ x, d, eps = 1, models = 2)
    dp_tukey_em(y ~ x, d, eps = 1, neighbours = "both")
    dp_huber(y ~ x, d, eps = 1, rounds = 2)
    dp_gradient_descent(y ~ x, d, eps = 1, schedule = "fast")
    dp_deepest_regression(y ~ x + z, d, eps = 1)
    dp_deepest_regression(y ~ x, d, eps = 1, at = 3)
    dp_deepest_regression(y ~ x, d, eps = 1, mechanism = "smooth")
    dp_deepest_regression(y ~ x, d, eps = 1, guarantee = "random", gamma = 0.1)
    dp_deepest_regression(y ~ x, d, eps = 1, mechanism = "smooth", gamma = 0.1)
    dp_deepest_regression(y ~ x, d, eps = 1, mechanism = "smooth", bounds = b, guarantee = "random", gamma = 0.1)
    dp_medsweep(y ~ x, d, eps = 1, clamp = 2)
    dp_theil_sen(y ~ x + z, d, eps = 1)
    dp_theil_sen(y ~ x, d, eps = 1, matchings = 0)
    dp_noisy_stats(y ~ x, d, eps = 1)
    dp_median(y ~ x, d, eps = 1)
    dp_median(y ~ 1, d, eps = 1, mechanism = "slow")
    dp_median(y ~ 1, d, eps = 1, mechanism = "smooth")
    dp_quantile(y ~ 1, d, eps = 1)
    dp_quantile(y ~ 1, d, q = 1, eps = 1)
    dp_tukey_median(y ~ 1, d, eps = 1)
    dp_tukey_median(cbind(x, y) ~ 1, d, eps = 1, bounds = b["x"])
    dp_tukey_median(cbind(x, y) ~ 1, d, eps = 1, mechanism = "smooth")
    dp_tukey_median(cbind(x, y, z) ~ 1, d, eps = 1, mechanism = "smooth")
    dp_mean(y ~ x, d, eps = 1)
    dp_bounding_box(y ~ 1, d, eps = 1, share = 2)
    dp_select_features(y ~ x + z, d, eps = 1)
    dp_select_features(y ~ x + z, d, k = 5, eps = 1)
    dp_select_features(y ~ x + z, d, k = 1, eps = 1, method = "guess")
  })
})

test_that("a failed release says what was spent", {
  skip_without_python()
  d <- with_response(some_rows(300))
  failure <- tryCatch(dp_tukey_em(y ~ x + z + g, d, eps = 0.1), error = identity)
  expect_s3_class(failure, c("dpstats_release_failed", "dpstats_error", "error", "condition"), exact = TRUE)
  expect_match(conditionMessage(failure), "^dp_tukey_em: ")
  expect_s3_class(dp_guarantee(failure), "dpstats_guarantee")
  expect_lt(dp_guarantee(failure)$eps, 0.1)
})

test_that("classes of conditions", {
  skip_without_python()
  d <- with_response(some_rows(300))
  expect_error(dp_ols(y ~ x, d, eps = -1), class = "dpstats_parameter_error")
  expect_error(dp_ols(y ~ x, d, eps = 1, levels = list(x = "a")), class = "dpstats_schema_error")
  expect_error(dp_ols(y ~ poly(x, 2), d, eps = 1), class = "dpstats_formula_error")
  expect_error(residuals(made_fit()), class = "dpstats_not_released")
  expect_error(dp_ledger("/nonexistent/folder/file.db", eps = 1, delta = 0), class = "dpstats_ledger_error")
})

test_that("an internal error tells where, and nothing of the data", {
  skip_without_python()
  expect_snapshot(error = TRUE, unwrap(list(error = list(
    kind = "python_error", message = "internal error: KeyError in dpstats.x, line 3.", guarantee = NULL
  ))))
})

test_that("messages speak R", {
  skip_without_python()
  expect_equal(in_r_words("Give bounds={'y': (lower, upper)}, or a larger eps."),
               "Give bounds = list(y = c(lower, upper)), or a larger eps.")
  expect_equal(in_r_words("None or True, got False."), "NULL or TRUE, got FALSE.")
  expect_equal(in_r_words("For more covariates use dpstats.medsweep."), "For more covariates use dp_medsweep().")
})

# Every argument of every function that takes data, given a column, a data frame, and more, in place of what it should be.
test_that("no message quotes a misplaced argument", {
  skip_without_python()
  number <- 918273.645
  text <- "SENTINEL-ROW"
  d <- data.frame(x = c(number, 1, 2, 0.5), y = c(3, number, 4, 1), g = c(text, "b", "c", "b"))
  misplaced <- list(
    column = d$x, text = d$g, factor = factor(d$g), frame = d, matrix = as.matrix(d[1:2]), list = list(number, text),
    named = list(x = number, y = text), columns = as.list(d), long = strrep(text, 10), dates = as.Date("2000-01-01") + 1:4,
    fun = function() number
  )
  usual <- list(formula = y ~ x, data = d, eps = 1, seed = 1)
  own <- list(
    dp_bounding_box = list(formula = y ~ 1), dp_mean = list(formula = y ~ 1), dp_median = list(formula = y ~ 1),
    dp_quantile = list(formula = y ~ 1, q = 0.5), dp_tukey_median = list(formula = cbind(x, y) ~ 1),
    dp_noisy_stats = list(bounds = list(x = c(0, 1), y = c(0, 1))),
    dp_select_features = list(formula = y ~ x + g, k = 1, levels = list(g = c("b", "c")))
  )
  allowed <- c(
    "data columns", "data frame", "data named", "levels columns", "at list", "formula long", "levels frame"
  )
  functions <- paste0("dp_", estimators())
  for (name in functions) {
    arguments <- utils::modifyList(usual, as.list(own[[name]]))
    for (parameter in setdiff(names(formals(name)), "...")) {
      for (what in names(misplaced)) {
        if (paste(parameter, what) %in% allowed) next
        arguments_here <- arguments
        arguments_here[[parameter]] <- misplaced[[what]]
        # calls as conditions carry them would hold the arguments; these hold none
        said <- tryCatch({
          do.call(name, arguments_here)
          NULL
        }, error = identity)
        place <- paste(name, parameter, what)
        expect_true(inherits(said, "dpstats_error") && is.null(said$call), info = place)
        expect_no_match(paste(said$message), "918273|SENTINEL|does not know|internal error", info = place)
      }
    }
  }
})
