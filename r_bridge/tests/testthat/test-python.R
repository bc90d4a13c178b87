test_that("every function gives the numbers of Python at the same seed", {
  skip_without_python()
  d <- with_response(some_rows())
  new <- d[c(1, 5, 77, 1000), ]
  b <- list(x = c(-5, 8), y = c(-20, 40), z = c(0, 4))
  calls <- list(
    list("ols", y ~ x + z + g, "y ~ x + z + g", eps = 3),
    list("ols", y ~ x + z, "y ~ x + z", eps = 3, bounds = b, winsorize = TRUE),
    list("ols", y ~ x + z + f, "y ~ x + z + f", eps = 3, select = 2L),
    list("tukey_em", y ~ x, "y ~ x", eps = 8, delta = 1e-3),
    list("tukey_em", y ~ x, "y ~ x", eps = 8, delta = 1e-3, neighbours = "substitution", whiten = FALSE, models = 150L),
    list("ols", y ~ x + z, "y ~ x + z", eps = 3, cov_type = "bootstrap"),
    list("adassp", y ~ x + z, "y ~ x + z", eps = 3),
    list("boosted_adassp", y ~ x + z, "y ~ x + z", eps = 3, rounds = 8L),
    list("gradient_descent", y ~ x + z, "y ~ x + z", eps = 3, schedule = "1/t"),
    list("huber", y ~ x + o, "y ~ x + o", eps = 3, c = 1),
    list("logit", f ~ x + z, "f ~ x + z", eps = 3),
    list("logit", o ~ x + g, "o ~ x + g", eps = 3, cov_type = "robust"),
    list("logit", I(y > 9) ~ x + g + f, "I(y > 9) ~ x + g + f", eps = 3, select = 1L),
    list("poisson", k ~ x + g, "k ~ x + g", eps = 3),
    list("poisson", k ~ x + o, "k ~ x + o", eps = 3, cov_type = "nonrobust", bounds = b),
    list("deepest_regression", y ~ x, "y ~ x", eps = 3, at = c(-1, 2)),
    list("deepest_regression", y ~ x, "y ~ x", eps = 3, mechanism = "smooth", bounds = b),
    list("deepest_regression", y ~ x, "y ~ x", eps = 5, delta = 1e-3, mechanism = "smooth", at = c(-1, 2)),
    list("medsweep", y ~ x + z, "y ~ x + z", eps = 3),
    list("medsweep", y ~ x, "y ~ x", eps = 3, variant = "joint", clamp = 50),
    list("theil_sen", y ~ x, "y ~ x", eps = 3, matchings = 2L),
    list("noisy_stats", y ~ x, "y ~ x", eps = 3, bounds = b),
    list("median", y ~ 1, "y ~ 1", eps = 3),
    list("median", y ~ 1, "y ~ 1", eps = 3, mechanism = "smooth", bounds = b),
    list("quantile", log(z) ~ 1, "np.log(z) ~ 1", eps = 3, q = 0.25),
    list("tukey_median", cbind(x, z) ~ 1, "x + z ~ 1", eps = 3, bounds = b),
    list("tukey_median", cbind(x, z) ~ 1, "x + z ~ 1", eps = 3, mechanism = "smooth", bounds = b),
    list("tukey_median", cbind(x, log(z)) ~ 1, "x + np.log(z) ~ 1", eps = 9, delta = 1e-2, scale = list(x = 3, "np.log(z)" = 1)),
    list("mean", cbind(y, z) ~ 1, "y + z ~ 1", eps = 3),
    list("bounding_box", cbind(y, x) ~ 1, "y + x ~ 1", eps = 3, delta = 1e-6)
  )
  for (call in calls) {
    name <- call[[1]]
    own <- call[-(1:3)]
    # the time for sets of lines or of points grows with the square of the rows
    sets <- name %in% c("deepest_regression", "tukey_median") && identical(own$mechanism, "smooth")
    rows <- if (sets) d[1:1000, ] else d
    fit <- do.call(paste0("dp_", name), c(list(call[[2]], rows, seed = 7L), own))
    found <- do.call(python_reference, c(list(name, call[[3]], rows, seed = 7L, new = new), own))
    info <- deparse1(call)
    # R's order of the columns is that of the terms
    order <- match_columns(names(coef(fit)), found$names)
    expect_identical(unname(coef(fit)), found$estimate[order], info = info)
    expect_equal(unname(vcov(fit)), matrix(found$cov, length(order))[order, order, drop = FALSE], tolerance = 0, info = info)
    tidied <- tidy(fit)
    expect_equal(tidied$std.error, found$std.error[order], tolerance = 1e-14, info = info)
    expect_equal(tidied$statistic, found$statistic[order], tolerance = 1e-14, info = info)
    expect_equal(tidied$p.value, found$p.value[order], tolerance = 1e-10, info = info)
    ends <- matrix(found$ends, ncol = 2, byrow = TRUE)[order, , drop = FALSE]
    expect_equal(unname(confint(fit)), ends, tolerance = 1e-7, info = info)
    if (!is.null(found$ends80)) {
      ends <- matrix(found$ends80, ncol = 2, byrow = TRUE)[order, , drop = FALSE]
      expect_equal(unname(confint(fit, level = 0.8)), ends, tolerance = 1e-7, info = info)
    }
    expect_identical(dp_guarantee(fit)$eps, found$eps, info = info)
    expect_equal(dp_guarantee(fit)$spends$eps, found$spends, info = info)
    # Python predicts means, R's glm() linear predictors
    values <- if (inherits(fit, "dpstats_glm")) predict(fit, new, type = "response") else if (!is.null(found$predict)) predict(fit, new)
    expect_equal(unname(values), found$predict, tolerance = 1e-12, info = info)
  }
})

test_that("scales are by response, as R names it", {
  skip_without_python()
  d <- with_response(some_rows())
  fit <- function(scale) coef(dp_tukey_median(cbind(x, log(z)) ~ 1, d, eps = 9, delta = 1e-2, seed = 1, scale = scale))
  expect_identical(fit(list(x = 3, "log(z)" = 1)), fit(list(x = 3, "np.log(z)" = 1)))
  expect_identical(fit(c("log(z)" = 1, x = 3)), fit(list(x = 3, "log(z)" = 1)))
})

test_that("groups give the numbers of Python", {
  skip_without_python()
  d <- with_response(some_rows())
  for (name in c("ols", "median", "deepest_regression")) {
    right <- if (name == "median") "1" else "x"
    own <- list(eps = 5, delta = 1e-3, by = "g", seed = 3L, bounds = list(y = c(-20, 40)))
    fits <- do.call(paste0("dp_", name), c(list(stats::reformulate(right, "y"), d), own))
    found <- do.call(python_reference, c(list(name, paste("y ~", right), d), own))
    for (column in names(found)) expect_equal(tidy(fits)[[column]], found[[column]], tolerance = 1e-6, info = name)
    expect_identical(tidy(fits)$estimate, found$estimate)
  }
})

test_that("a choice of terms is that of Python", {
  skip_without_python()
  d <- with_response(some_rows())
  choice <- dp_select_features(y ~ x + log(z) + g + x:z, d, k = 3, eps = 2, seed = 1L)
  found <- python_reference("select_features", "y ~ x + np.log(z) + g + x:z", d, k = 3L, eps = 2, seed = 1L)
  expect_equal(gsub("np.", "", found$terms, fixed = TRUE), choice$terms)
  expect_equal(formula(choice)[[2]], quote(y))
  expect_setequal(attr(terms(formula(choice)), "term.labels"), choice$terms)
  expect_equal(tidy(choice)$round, as.integer(unlist(found$rounds)))
})

test_that("arguments and defaults are those of Python", {
  skip_without_python()
  reticulate::py_run_string("
import dpstats, inspect

def signature(name):
    parameters = inspect.signature(getattr(dpstats, name)).parameters.values()
    return {p.name: 'no default' if p.default is p.empty else repr(p.default) for p in parameters}
")
  functions <- grep("^dp_", getNamespaceExports("dpstats"), value = TRUE)
  others <- c(
    "dp_available", "dp_combine", "dp_config", "dp_glm", "dp_guarantee", "dp_het_test", "dp_install", "dp_ledger", "dp_marginal_effects",
    "dp_plan", "dp_remaining", "dp_split"
  )
  functions <- setdiff(functions, others)
  expect_setequal(functions, paste0("dp_", c(estimators(), "describe")))
  in_python <- function(value) {
    if (is.name(value)) return("no default")
    if (is.null(value)) return("None")
    if (is.character(value)) return(paste0("'", value, "'"))
    if (is.logical(value)) return(if (value) "True" else "False")
    format(value)
  }
  for (name in functions) {
    python <- reticulate::py$signature(sub("dp_", "", name, fixed = TRUE))
    r <- formals(getExportedValue("dpstats", name))
    # there to say what to do in place of arguments of lm()
    expect_identical(names(r)[length(r)], "...", info = name)
    r <- r[-length(r)]
    expect_setequal(names(r), names(python))
    for (argument in names(r)) {
      theirs <- python[[argument]]
      ours <- as.character(in_python(r[[argument]]))
      same <- ours == theirs || isTRUE(suppressWarnings(as.numeric(ours) == as.numeric(theirs)))
      expect_true(same, info = paste(name, argument, ours, theirs))
    }
  }
})

test_that("Python that is not there is named", {
  skip_on_cran()
  script <- paste(
    "library(dpstats); cat(dp_available(), '\\n');",
    "tryCatch(dp_median(mpg ~ 1, mtcars, eps = 1), dpstats_python_error = function(e) cat(conditionMessage(e)))"
  )
  # an interpreter without packages
  empty <- tempfile()
  dir.create(empty)
  env <- c("PYTHONNOUSERSITE=1", paste0("PYTHONHOME="), "RETICULATE_PYTHON=/nonexistent/python")
  out <- suppressWarnings(system2(
    file.path(R.home("bin"), "Rscript"), c("--vanilla", "-e", shQuote(script)), stdout = TRUE, stderr = TRUE,
    env = c(env, paste0("R_LIBS=", paste(.libPaths(), collapse = .Platform$path.sep)))
  ))
  expect_match(paste(out, collapse = " "), "FALSE")
  expect_match(paste(out, collapse = " "), "RETICULATE_PYTHON")
})

test_that("nobody's seed is touched", {
  skip_without_python()
  set.seed(5)
  before <- .Random.seed
  state <- function() reticulate::py_eval("hash(str(__import__('numpy').random.get_state()))", convert = FALSE)
  numpy <- as.character(state())
  dp_median(mpg ~ 1, mtcars, eps = 1)
  dp_ols(y ~ x + g, with_response(some_rows()), eps = 2, seed = 1)
  expect_identical(.Random.seed, before)
  expect_identical(as.character(state()), numpy)
})
