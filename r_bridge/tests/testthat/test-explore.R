# Before and after a fit: descriptions, plans, diagnostics, divided budgets, pooled fits.

explored <- function(code, ...) {
  python_reference("median", "x ~ 1", some_rows(100), eps = 1)
  reticulate::py_run_string(paste0("import dpstats.bridge_explore\n\ndef explored(columns, options):\n    ", code))
  reticulate::py$explored(...)
}

quiet_plots <- function(...) {
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  before <- graphics::par("mar", "mfrow")
  for (x in list(...)) testthat::expect_identical(plot(x), x)
  testthat::expect_identical(graphics::par("mar", "mfrow"), before)
}

# -- descriptions --------------------------------------------------------------------------------------------

test_that("a description is that of Python", {
  skip_without_python()
  d <- with_response(some_rows(2000))[c("x", "g", "f", "y")]
  d$x[1:9] <- NA
  table <- dp_describe(d, eps = 4, correlation = TRUE, bounds = list(x = c(-5, 8)), seed = 3)
  found <- explored(
    "t = dpstats.describe(as_frame(columns), bounds={'x': (-5, 8)}, **options)
    return {'tidy': {k: as_floats(t.tidy()[k]) for k in ('estimate', 'std.error', 'conf.low', 'conf.high')},
            'statistic': list(t.tidy()['statistic']), 'correlation': as_floats(t.correlation), 'eps': t.guarantee.eps}",
    lists_of(d), list(eps = 4, correlation = TRUE, seed = 3L)
  )
  for (name in names(found$tidy)) expect_equal(table$statistics[[name]], found$tidy[[name]], tolerance = 0, info = name)
  expect_identical(table$statistics$statistic, sub("True", "TRUE", sub("False", "FALSE", found$statistic)))
  expect_identical(as.vector(table$correlation), found$correlation)
  expect_identical(dimnames(table$correlation.se), list(c("x", "y"), c("x", "y")))
  expect_identical(dp_guarantee(table)$eps, found$eps)
  expect_identical(table$numbers$column, c("x", "y"))
  expect_named(table$numbers, c("column", "missing", "mean", "sd", "25 %", "median", "75 %"))
  expect_identical(table$levels$level, c("a", "b", "c", "never", "FALSE", "TRUE"))
  expect_named(table$levels, c("column", "level", "count", "share", "std.error", "conf.low", "conf.high"))
  expect_named(tidy(table), c("column", "statistic", "estimate", "std.error", "conf.low", "conf.high", "limited.low", "limited.high"))
  expect_identical(as.data.frame(summary(table)), table$statistics)
  expect_output(print(table), "FALSE +[0-9,]+ +0[.][0-9]+")
  expect_output(print(table), "correlation")
  quiet_plots(table)
  path <- tempfile(fileext = ".rds")
  saveRDS(table, path)
  expect_identical(readRDS(path), table)
})

test_that("what cannot be described is left out by its type, and named", {
  skip_without_python()
  d <- some_rows(1500)[c("x", "g")]
  d$text <- rep(c("u", "v"), 750)
  d$day <- rep(as.POSIXlt("2020-01-01", tz = "UTC"), 1500)
  table <- dp_describe(d, eps = 4)
  expect_identical(table$numbers$column, "x")
  expect_null(table$correlation)
  expect_output(print(table), "Not described[^:]*: text,\\s+day")
  table <- dp_describe(d, "text", eps = 4, levels = list(text = c("u", "v")))
  expect_identical(table$levels$level, c("u", "v"))
  expect_identical(nrow(table$numbers), 0L)
  quiet_plots(table)
  one <- dp_describe(d[1, ], "g", eps = 1, seed = 1)
  expect_true(all(is.na(one$levels[c("share", "std.error", "conf.low", "conf.high")])))
  quiet_plots(one)
  expect_snapshot(error = TRUE, {
    dp_describe(d, "text", eps = 4)
    dp_describe(d, "day", eps = 4)
    dp_describe(d, "z", eps = 4)
    dp_describe(d, c("x", "x"), eps = 4)
    dp_describe(d, 3, eps = 4)
    dp_describe(d, "g", eps = 4, by = "g")
    dp_describe(d["text"], eps = 4)
    dp_describe(d, "x", eps = 4, correlation = TRUE)
    dp_describe(d, "x", eps = 4, correlation = 1)
    dp_describe(d)
    dp_describe(d, eps = -1)
    dp_describe(d, eps = 1, by = "text")
    tidy(table, conf.level = 0.9)
    summary(table, 3)
    plot(table, "x")
    plot(table, main = "a")
  })
})

test_that("groups, units and files are described", {
  skip_without_python()
  d <- with_response(some_rows(3000))
  d$id <- rep(1:1500, 2)
  ledger <- dp_ledger(":memory:", eps = 5, delta = 1e-5)
  tables <- dp_describe(d, c("x", "o"), eps = 4, by = "f", ledger = ledger)
  expect_equal(unname(dp_remaining(ledger)[1]), 1)
  expect_identical(names(tables), c("FALSE", "TRUE"))
  expect_s3_class(tables[["TRUE"]], "dp_description")
  expect_named(tidy(tables)[1:2], c("f", "column"))
  expect_identical(as.data.frame(tables)$estimate, unlist(lapply(tables$results, function(x) x$statistics$estimate), FALSE, FALSE))
  expect_output(print(tables), "Groups by: +f .*FALSE +TRUE.*x: 25 %")
  expect_error(plot(tables), 'plot(x[["FALSE"]])', fixed = TRUE, class = "dpstats_parameter_error")
  expect_error(tables[["no"]], class = "dpstats_parameter_error")
  expect_identical(dp_guarantee(dp_describe(d, "x", eps = 4, unit = "id"))$unit, "id")
  path <- tempfile(fileext = ".csv")
  utils::write.csv(d[c("x", "g")], path, row.names = FALSE)
  ours <- dp_describe(path, eps = 4, levels = list(g = c("a", "b", "c", "never")), seed = 1)
  expect_equal(ours$statistics, dp_describe(d[c("x", "g")], eps = 4, seed = 1)$statistics)
})

# -- diagnostics ---------------------------------------------------------------------------------------------

test_that("a diagnosis is that of Python, also of a fit that was saved", {
  skip_without_python()
  d <- with_response(some_rows(3000))
  fit <- dp_ols(y ~ log(z) + g + f, d, eps = 8, seed = 1)
  path <- tempfile(fileext = ".rds")
  saveRDS(fit, path)
  found <- diagnose(readRDS(path), d, eps = 8, seed = 2)
  theirs <- explored(
    "fit = dpstats.ols('y ~ np.log(z) + g + f', as_frame(columns), eps=8, seed=1)
    found = fit.diagnose(as_frame(columns), **options)
    tests = found.test_table
    return {'tests': {k: as_floats(tests[k]) for k in tests}, 'test': list(tests.index),
            'fitted': {k: as_floats(v) for k, v in found.frames()['fitted'].items()},
            'column': as_floats(found.frames()['np.log(z)']['mean'])}",
    lists_of(d), list(eps = 8, seed = 2L)
  )
  expect_identical(found$tests$test, theirs$test)
  expect_named(found$tests, c("test", "statistic", "df", "p.value"))
  expect_equal(unname(as.list(found$tests[-1])), unname(theirs$tests), tolerance = 1e-12)
  expect_equal(unname(as.list(found$tables$fitted)), unname(theirs$fitted), tolerance = 1e-12)
  expect_equal(found$tables$columns[["log(z)"]]$mean, theirs$column, tolerance = 1e-12)
  expect_output(print(found), "Formula: y ~ log(z) + g + f", fixed = TRUE)
  expect_equal(tidy(found)$statistic, found$tests$statistic)
  # the fit spent its own budget, and the diagnosis another
  ledger <- dp_ledger(":memory:", eps = 9, delta = 1e-5)
  diagnose(fit, d, eps = 8, ledger = ledger)
  expect_equal(unname(dp_remaining(ledger)[1]), 1)
  without <- diagnose(dp_ols(y ~ g, d, eps = 8), d, eps = 8)
  expect_length(without$tables$columns, 0)
  quiet_plots(found, without)
})

test_that("levels that a formula writes out are read again", {
  skip_without_python()
  d <- with_response(some_rows(3000))
  d$t <- rep(c("u", "v"), 1500)
  d$event <- ifelse(d$f, "yes", "no")
  linear <- dp_ols(y ~ x + factor(t, levels = c("u", "v")) + relevel(g, ref = "b") + factor(k, levels = 0:9), d, eps = 8)
  expect_false(anyNA(diagnose(linear, d, eps = 8)$tests$statistic))
  classes <- dp_logit(factor(event, levels = c("no", "yes")) ~ x, d, eps = 8)
  expect_gt(diagnose(classes, d, eps = 8)$facts$rows, 2500)
  expect_gt(diagnose(classes, transform(d, event = factor(event)), eps = 8)$facts$rows, 2500)
})

test_that("classes and counts have diagnostics of their own", {
  skip_without_python()
  d <- with_response(some_rows(3000))
  d$years <- 1 + d$k %% 3
  d$id <- rep(1:1500, 2)
  classes <- diagnose(dp_logit(o ~ x, d, eps = 8, unit = "id"), d, eps = 8)
  expect_named(classes$tables, c("calibration", "roc"))
  expect_true(classes$facts$auc > 0.3 && classes$facts$auc_se > 0)
  expect_identical(dp_guarantee(classes)$unit, "id")
  counts <- diagnose(dp_poisson(k ~ x + offset(log(years)), d, eps = 8), d[c("k", "x", "years")], eps = 8)
  expect_named(counts$tables$rootogram, c("count", "observed", "expected", "std.error"))
  truth <- diagnose(dp_logit(f ~ x, d, eps = 8), d, eps = 8)
  expect_identical(truth$kind, "logit")
  quiet_plots(classes, counts, truth)
  expect_snapshot(error = TRUE, {
    fit <- dp_logit(f ~ x, d, eps = 8)
    diagnose(fit, transform(d, f = 1), eps = 8)
    diagnose(fit, transform(d, x = "a"), eps = 8)
    diagnose(fit, d["f"], eps = 8)
    diagnose(fit, d)
    diagnose(fit, d, eps = 0)
    diagnose(fit, d, eps = 1, alpha = 0.1)
    diagnose(fit)
    diagnose(dp_mean(x ~ 1, d, eps = 1), d, eps = 1)
    diagnose(dp_ols(y ~ x, d, eps = 8, by = "o"), d, eps = 1)
    diagnose(3)
    diagnose(dp_ols(y ~ 0 + log(z), d, eps = 8), d, eps = 1)
    diagnose(made_fit(design = list()), d, eps = 1)
  })
})

# -- plans ---------------------------------------------------------------------------------------------------

test_that("a plan is that of Python, in R's names and order", {
  skip_without_python()
  like <- list(x = list("gamma", 2, 1, low = 0.2), g = c(a = 0.5, b = 0.5), k = list("numbers", c("1" = 0.2, "2" = 0.8)))
  r <- matrix(c(1, 0.3, 0.3, 1), 2, dimnames = list(c("x", "k"), c("x", "k")))
  plan <- dp_plan(
    y ~ log(x) + k + g, like, n = c(500, 2000), eps = c(4, 8), effects = c("log(x)" = 2, gb = 1), sigma = 1,
    errors = list("t", df = 5), correlation = r, runs = 2
  )
  found <- explored(
    "like = {'x': ('gamma', {'mean': 2, 'sd': 1, 'low': 0.2}), 'g': {'a': 0.5, 'b': 0.5}, 'k': {1: 0.2, 2: 0.8}}
    t = dpstats.plan('y ~ np.log(x) + k + g', like, n=[500, 2000], eps=[4, 8], effects={'np.log(x)': 2, 'g[T.b]': 1},
                     sigma=1, errors=('t', {'df': 5}), correlation={('x', 'k'): 0.3}, runs=2, processes=1).table
    return {'term': list(t['term']), 'se': as_floats(t['se']), 'power': as_floats(t['power'])}",
    NULL, list()
  )
  terms <- c("(Intercept)", "log(x)", "k", "gb")
  expect_identical(plan$table$term, rep(terms, 4))
  order <- match(terms, c("(Intercept)", "gb", "log(x)", "k")[match(found$term[1:4], c("Intercept", "g[T.b]", "np.log(x)", "k"))])
  order <- rep(order, 4) + rep(4 * 0:3, each = 4)
  expect_equal(plan$table$se, found$se[order])
  expect_equal(is.na(plan$table$power), is.na(found$power[order]))
  expect_null(plan$needed)
  expect_identical(as.data.frame(plan), plan$table)
  expect_output(print(plan), "Formula: y ~ log(x) + k + g", fixed = TRUE)
  quiet_plots(plan)
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  plot(plan, "power", over = "n", terms = "gb")
  expect_snapshot(error = TRUE, {
    plot(plan, "cost")
    plot(plan, over = "k")
    plot(plan, terms = "z")
    tidy(plan, 1)
  })
})

test_that("plans from public rows, and with a target", {
  skip_without_python()
  d <- with_response(some_rows(500))
  d$g <- as.character(d$g)
  plan <- dp_plan(I(y > 9) ~ x + g, d, n = 2000, eps = 5, estimator = "logit", runs = 2, level = 0.9)
  expect_identical(plan$table$term, c("(Intercept)", "x", "gb", "gc"))
  expect_output(print(plan), "90 % interval", fixed = TRUE)
  plan <- dp_plan(y ~ x, d[c("x", "y")], n = 2000, target = list(x = c(width = 1)), runs = 2)
  expect_identical(plan$needed$found, "eps")
  expect_output(print(plan), "Target: width of x <= 1", fixed = TRUE)
})

test_that("plans from groups of rows", {
  skip_without_python()
  r <- matrix(c(1, 0.5, 0.5, 1), 2, dimnames = list(c("x", "y"), c("x", "y")))
  like <- list(
    list(share = 0.2, columns = list(y = list("normal", 1, 1), x = list("uniform", 0, 1), g = c(a = 0.9, b = 0.1))),
    list(share = 0.8, columns = list(g = c(c = 0.4, b = 0.6), y = list("normal", 3, 1), x = "normal"), correlation = r)
  )
  plan <- dp_plan(y ~ x + g, like, n = 2000, eps = 8, runs = 2)
  found <- explored(
    "like = [{'share': 0.2, 'columns': {'y': ('normal', 1, 1), 'x': ('uniform', 0, 1), 'g': {'a': 0.9, 'b': 0.1}}},
             {'share': 0.8, 'columns': {'g': {'c': 0.4, 'b': 0.6}, 'y': ('normal', 3, 1), 'x': 'normal'},
              'correlation': {('x', 'y'): 0.5}}]
    t = dpstats.plan('y ~ x + g', like, n=2000, eps=8, runs=2, processes=1).table
    return {'term': list(t['term']), 'se': as_floats(t['se'])}",
    NULL, list()
  )
  python <- c("(Intercept)" = "Intercept", x = "x", gb = "g[T.b]", gc = "g[T.c]")
  expect_setequal(plan$table$term, names(python))
  expect_equal(plan$table$se, found$se[match(python[plan$table$term], found$term)])
  named <- dp_plan(y ~ x + g, stats::setNames(like, c("low", "high")), n = 2000, eps = 8, runs = 2)
  expect_identical(named$table, plan$table)
  expect_snapshot(error = TRUE, {
    dp_plan(y ~ x, list(list(columns = list(x = "normal", y = "normal"))), n = 10, eps = 1)
    dp_plan(y ~ x, list(list(share = "1", columns = list(x = "normal", y = "normal"))), n = 10, eps = 1)
    dp_plan(y ~ x, list(list(share = 1, columns = list("normal"))), n = 10, eps = 1)
    dp_plan(y ~ x, list(list(share = 1, share = 1, columns = list(x = "normal"))), n = 10, eps = 1)
    dp_plan(y ~ x, list(list(share = 0.5, columns = list(x = "normal", y = "normal"))), n = 10, eps = 1)
    dp_plan(y ~ x, list(list(share = 1, columns = list(x = "normal", y = "normal"), correlation = 0.3)), n = 10, eps = 1)
    dp_plan(y ~ x, like, n = 10, eps = 1, correlation = r)
  })
})

test_that("what is no plan is refused in R's words", {
  skip_without_python()
  like <- list(x = "normal")
  expect_snapshot(error = TRUE, {
    dp_plan(y ~ x, n = 10, eps = 1)
    dp_plan(y ~ x, list("normal"), n = 10, eps = 1)
    dp_plan(y ~ x, list(x = c("normal", "0", "1")), n = 10, eps = 1)
    dp_plan(y ~ x, list(x = list("normal", "a")), n = 10, eps = 1)
    dp_plan(y ~ x, list(x = c(0.2, 0.8)), n = 10, eps = 1)
    dp_plan(y ~ x, list(x = list("numbers", c(a = 1))), n = 10, eps = 1)
    dp_plan(y ~ x, list(x = "cauchy"), n = 10, eps = 1)
    dp_plan(y ~ x + z, like, n = 10, eps = 1)
    dp_plan(y ~ x, like, n = 10, eps = 1)
    dp_plan(y ~ x, like, n = 10, eps = 1, effects = c(z = 1))
    dp_plan(y ~ x, like, n = 10, eps = 1, effects = c(x = 1))
    dp_plan(y ~ x, like, eps = 1, effects = c(x = 1), sigma = 1)
    dp_plan(y ~ x, like, n = 10, eps = 1, effects = c(x = 1), sigma = 1, target = list(x = c(width = 1)))
    dp_plan(y ~ x, like, n = 10, effects = c(x = 1), sigma = 1, target = list(z = c(width = 1)))
    dp_plan(y ~ x, like, n = 10, eps = 1, correlation = 0.3)
    dp_plan(y ~ x, like, n = 10, eps = 1, estimator = "lm")
    dp_plan(y ~ x, like, n = 10, eps = 1, options = list(3))
    dp_plan(y ~ x, like, n = 10, eps = 1, effects = c(x = 1), sigma = 1, options = list(a = 3))
    dp_plan(y ~ x, data.frame(x = 1, y = 1), n = 10, eps = 1, correlation = diag(2))
    dp_plan(y ~ x, like, n = 10, eps = 1, level = 95)
  })
})

# -- several releases ----------------------------------------------------------------------------------------

test_that("budgets are divided as in Python", {
  skip_without_python()
  expect_equal(dp_split(1, 4), data.frame(part = 1:4, eps = 0.25, delta = 2.5e-7))
  parts <- dp_split(1, c(main = 2, check = 1), rule = "gdp")
  expect_identical(parts$part, c("main", "check"))
  expect_equal(parts$eps, c(0.7762, 0.5353), tolerance = 1e-3)
  expect_equal(dp_split(1, list(main = 2, check = 1), rule = "gdp"), parts)
  ledger <- dp_ledger(":memory:", eps = 1, delta = 1e-6, composition = "gdp")
  d <- with_response(some_rows())
  for (eps in parts$eps) dp_mean(y ~ 1, d, eps = eps, delta = 1e-6, ledger = ledger)
  expect_error(dp_mean(y ~ 1, d, eps = 0.05, ledger = ledger), class = "dpstats_budget_exceeded")
  expect_snapshot(error = TRUE, {
    dp_split(1)
    dp_split(1, c(2, 1))
    dp_split(1, 0.5)
    dp_split(1, c(a = -1))
    dp_split(1, 2, rule = "sum")
    dp_split(1, 2, rule = "gdp", delta = 0)
  })
})

test_that("fits are pooled as in Python", {
  skip_without_python()
  d <- with_response(some_rows(4000))
  half <- list(d[1:2000, ], d[2001:4000, ])
  fits <- lapply(1:2, function(i) dp_ols(y ~ g + x + f, half[[i]], eps = 8, seed = i))
  pooled <- dp_combine(fits)
  found <- explored(
    "frame = as_frame(columns)
    halves = [frame[:2000], frame[2000:]]
    fit = dpstats.combine([dpstats.ols('y ~ g + x + f', half, eps=8, seed=i + 1) for i, half in enumerate(halves)])
    return {'names': list(fit.names), 'estimate': as_floats(fit.params), 'cov': as_floats(fit.cov),
            'test': [fit.heterogeneity.statistic, fit.heterogeneity.df]}",
    lists_of(d), list()
  )
  order <- match_columns(names(coef(pooled)), found$names)
  expect_equal(unname(coef(pooled)), found$estimate[order])
  expect_equal(unname(vcov(pooled)), matrix(found$cov, length(order))[order, order])
  expect_equal(c(pooled$heterogeneity$statistic, pooled$heterogeneity$df), found$test)
  expect_identical(dim(predict(pooled, d[1:3, ], interval = "confidence")), c(3L, 3L))
  expect_snapshot(predict(pooled, d, interval = "prediction"), error = TRUE)
  # in the names of R
  fit <- function(rows) dp_ols(y ~ relevel(g, "b") + log(z), rows, eps = 8)
  notes <- dp_combine(lapply(half, fit))$notes
  expect_match(notes, "log(z) [", fixed = TRUE, all = FALSE)
  expect_no_match(notes, "np.log", fixed = TRUE)
  expect_error(dp_combine(list(fit(d), fits[[1]])), "relevel(g, \"b\")a, relevel(g, \"b\")c", fixed = TRUE)
  # fits of pooled fits, and of groups
  expect_identical(names(coef(dp_combine(list(pooled, dp_ols(y ~ g + x + f, d, eps = 8))))), names(coef(pooled)))
  groups <- dp_combine(dp_ols(y ~ x, d, eps = 8, by = "o"))
  few <- transform(d, o = factor(ifelse(seq_len(nrow(d)) > 5, as.character(o), "few"), c(levels(o), "few")))
  expect_match(dp_combine(dp_ols(y ~ x, few, eps = 8, by = "o"))$notes, "groups have no fit .*: few", all = FALSE)
  expect_match(dp_guarantee(groups)$scope, "groups by 'o' are disjoint")
  classes <- dp_combine(lapply(half, function(rows) dp_logit(f ~ x, rows, eps = 8)))
  expect_s3_class(classes, "dpstats_glm")
  expect_identical(is.na(glance(classes)$deviance), TRUE)
  expect_snapshot(error = TRUE, {
    dp_marginal_effects(classes)
    deviance(classes)
    dp_combine(fits[[1]])
    dp_combine(fits[1])
    dp_combine(list(fits[[1]], dp_ols(y ~ x, d, eps = 8)))
    dp_combine(lapply(half, function(rows) dp_median(y ~ 1, rows, eps = 8)))
    dp_combine(list(made_fit(), made_fit()))
  })
})
