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
  expect_equal(in_r_words("missing (pd.to_numeric; dates"), "missing (as.numeric(); dates")
  expect_equal(named_here("The ledger has too little left for ols: it"), "The ledger has too little left for dp_ols: it")
})

test_that("columns in memory have a type, and nothing is said of one that is not declared", {
  skip_without_python()
  d <- with_response(some_rows(20))
  said <- tryCatch(dp_logit(y ~ x, d, eps = 0.1, seed = 1), error = conditionMessage)
  expect_match(said, "dp_logit: .* count as missing\\.$")
  expect_no_match(said, "declared type|to_numeric")
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
  tried <- 0
  wrong <- character()
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
        good <- inherits(said, "dpstats_error") && is.null(said$call) &&
          !grepl("918273|SENTINEL|does not know|internal error", paste(said$message))
        tried <- tried + 1
        if (!good) wrong <- c(wrong, paste(name, parameter, what))
      }
    }
  }
  expect_identical(wrong, character())
  expect_gt(tried, 1500)
})

test_that("a bar is named for what it was meant to be", {
  skip_without_python()
  d <- with_response(some_rows(60))
  for (formula in c(y ~ x | g, y ~ x + (1 | g), y ~ x + (z || g), (y | x) ~ z, y ~ x > 2 | g)) {
    expect_error(dp_ols(formula, d, eps = 1), "random effects are not fitted", class = "dpstats_formula_error")
  }
  d$b <- d$x > 2
  for (formula in c(y ~ I(x | z), y ~ (x > 2) | b)) expect_s3_class(dp_ols(formula, d, eps = 99), "dp_ols")
})

test_that("the reason of a failed group names the function", {
  skip_without_python()
  d <- with_response(some_rows(600))
  d$place <- factor(rep(c("a", "b"), c(2, 598)), c("a", "b", "c"))
  fits <- dp_ols(y ~ x, d, eps = 1, by = "place")
  expect_match(fits$failed, "^dp_ols: ")
})

# What Python says, and R does not. Names and texts of the user stand in quotes, and may be anything. Messages may
# begin with the name of a parameter that names a column.
python_says <- paste0(
  "\\b[a-z_]+=[^= ]|=[,.]|\\bnp\\.|\\bdpstats\\.[a-z]|\\bQ\\(|\\[T\\.|\\*\\*|\\['|\\{|_bound\\b|docs/|^(?!dp_|(by|unit|levels|bounds): )[a-z_]+: |patsy|internal error|",
  "\\b(None|True|False|dict|dictionary|mapping|str|tuple|int|bool|float|Series|DataFrame|ndarray|numpy|pandas|polars|list of str|keyword)\\b"
)

test_that("no error speaks Python", {
  skip_without_python()
  d <- with_response(some_rows(60))
  d$b <- as.numeric(d$x > 1)
  d$t <- as.character(d$g)
  d[["two words"]] <- d$x
  path <- tempfile(fileext = ".csv")
  utils::write.csv(d, path, row.names = FALSE)
  all_said <- character()
  provoke <- function(what, ...) {
    said <- tryCatch({
      do.call(what, list(...))
      NULL
    }, error = identity, warning = function(w) NULL, message = function(m) NULL)
    if (is.null(said)) return(invisible())
    if (!inherits(said, "dpstats_error")) return(all_said <<- c(all_said, paste("internal error:", conditionMessage(said))))
    # a path is the user's own
    all_said <<- c(all_said, gsub(path, "", conditionMessage(said), fixed = TRUE))
  }
  formulas <- c(
    "y ~ scale(x)", "y ~ bs(x, df = 4)", "y ~ bs(x)", "y ~ bs(x, knots = c(1, 2))", "y ~ bs(`two words`, knots = 1)",
    "y ~ bs(x, knots = 9, Boundary.knots = c(0, 5))", "y ~ bs(x, knots = -1, Boundary.knots = c(0, 5))",
    "y ~ bs(x, knots = 1, Boundary.knots = c(5, 0))", "y ~ bs(x, knots = 1, degree = 99, Boundary.knots = c(0, 5))",
    "y ~ bs(g, knots = 1)", "y ~ log(g)", "y ~ log(x, base = -1)", "y ~ factor(x)", "y ~ factor(x, levels = c(1, 1))",
    "y ~ relevel(g, ref = 'q')", "y ~ C(g, contr.foo)", "y ~ sqrt(-1)", "y ~ x:y", "y ~ log(y)", "y ~ 0", "~ x", "y ~ I(x + g)",
    "y ~ ifelse(g, 1, 2)", "y ~ t", "t ~ x", "g ~ x", "log(g) ~ x", "y ~ x | z", "y ~ nope", "y ~ exp(nope)", "y ~ I(1)",
    "cbind(y, x) ~ z", "cbind(y, log(`two words`)) ~ z", "y + x ~ 1", "y ~ offset(x)", "y ~ mean(x)", "y ~ x$z", "y ~ Inf", "y ~ TRUE",
    "y ~ 'x'", "y ~ poly(x, 2)", "y ~ .^3", "y ~ `two words` + log(`two words`)", "factor(g, levels = c('a', 'b')) ~ x", "y ~ g + x"
  )
  for (formula in formulas) for (data in list(d, path)) for (name in c("dp_ols", "dp_logit", "dp_theil_sen", "dp_tukey_median")) {
    provoke(name, formula, data, eps = 1, seed = 1)
  }
  declared <- list(
    levels = list(x = "a"), levels = list(g = "a"), levels = list(g = 1:2), levels = list(t = character()),
    levels = list(f = c("a", "b")), levels = list(nope = "a"), bounds = list(g = c(0, 1)), bounds = list(x = 1),
    bounds = list(x = c(-Inf, Inf)), bounds = list(x = c("a", "b")), bounds = list(x = list(1, 2)), bounds = 1, by = "x", by = "t",
    by = "nope", by = "y", unit = "nope", unit = "y", weights = "unit", effects = "unit", select = 9, select = "x", ledger = "/nowhere/a.db",
    eps = 1e-3, eps = "x", eps = TRUE, eps = list(1), eps = list(a = 1), delta = 2, delta = "x", seed = 0.5, seed = "x", seed = c(1, 2),
    cov_type = "x", cov_type = 1, winsorize = 3, rounds = 0, alpha = 2
  )
  for (i in seq_along(declared)) for (data in list(d, path)) {
    arguments <- list("dp_ols", "y ~ x + g", data, eps = 1)
    arguments[[names(declared)[i]]] <- declared[[i]]
    if (names(declared)[i] %in% names(formals(dp_ols))) do.call(provoke, arguments)
  }
  weird <- list(-1, Inf, "x", c(1, 2), c(a = 1), list(1, 2), list(a = 1), TRUE, character(), list(x = c(1, 2, 3)), "")
  fit <- made_fit()
  for (value in weird) {
    for (name in c("columns", "eps", "delta", "correlation", "by", "unit", "bounds", "levels", "seed", "ledger")) {
      do.call(provoke, c(list("dp_describe", d[c("x", "g")]), replace(list(eps = 1), name, list(value))))
    }
    for (name in c("n", "eps", "estimator", "delta", "options", "effects", "sigma", "r2", "errors", "spread", "target", "level", "seed")) {
      do.call(provoke, c(list("dp_plan", y ~ x, d), replace(list(n = 90, eps = 1, runs = 2), name, list(value))))
    }
    for (name in c("path", "eps", "delta", "dataset", "composition", "unit")) {
      if (name == "path" && is_path(value)) next
      do.call(provoke, c("dp_ledger", replace(list(path = ":memory:", eps = 1, delta = 0), name, list(value))))
    }
    provoke("dp_split", 1, value)
    provoke("dp_split", value, 2)
    provoke("dp_combine", value)
    provoke("dp_combine", list(fit, value))
    provoke("dp_remaining", dp_ledger(":memory:", eps = 1, delta = 0), value)
    provoke("dp_glm", y ~ x, d, eps = 1, family = value)
    provoke("dp_tukey_median", cbind(x, y) ~ 1, d, eps = 1, scale = value)
    provoke("dp_quantile", y ~ 1, d, q = value, eps = 1)
    provoke("dp_deepest_regression", y ~ x, d, eps = 1, at = value)
    provoke("dp_select_features", y ~ x + z, d, k = value, eps = 1)
    provoke("diagnose", fit, value, eps = 1)
    provoke("predict", fit, value)
    provoke("depth_halfspace", value, d[1:2])
    provoke("depth_contours", d[1:2], value)
  }
  for (data in list("no.csv", "no.parquet", "no.xyz", tempdir(), c("a.csv", "b.csv"))) provoke("dp_ols", y ~ x, data, eps = 1)
  ledger <- dp_ledger(":memory:", eps = 0.1, delta = 1e-7)
  provoke("dp_ols", y ~ x, d, eps = 1, ledger = ledger)
  provoke("dp_ols", y ~ x, d, eps = 0.05, delta = 1e-8, ledger = ledger, unit = "k")
  all_said <- unique(all_said)
  expect_gt(length(all_said), 150)
  expect_identical(all_said[grepl(python_says, all_said, perl = TRUE)], character())
})
