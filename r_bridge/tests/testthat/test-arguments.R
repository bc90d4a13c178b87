# No argument is ignored.

# Calls that are fine but for the last argument. What R itself hands on (`complete`, `use.fallback`, `optional`) is allowed.
test_that("every method refuses what it does not know", {
  skip_without_python()
  d <- with_response(some_rows(1500))
  fit <- dp_ols(y ~ x + g, d, eps = 5)
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  objects <- list(
    dpstats = fit, dpstats_glm = dp_logit(f ~ x, d, eps = 5), dpstats_groups = dp_ols(y ~ x, d, eps = 5, by = "f"),
    dpstats_selection = dp_select_features(y ~ x + z, d, k = 1, eps = 5), dpstats_guarantee = dp_guarantee(fit),
    dp_ledger = dp_ledger(":memory:", eps = 1, delta = 0), dp_description = dp_describe(d, "x", eps = 5),
    dp_descriptions = dp_describe(d, "x", eps = 5, by = "f"), dp_diagnosis = diagnose(fit, d, eps = 5),
    dp_plan = dp_plan(y ~ x, d, n = 1000, eps = 2, runs = 2)
  )
  objects$summary.dpstats <- summary(fit)
  objects$summary.dpstats_groups <- summary(objects$dpstats_groups)
  needed <- list(
    predict = list(newdata = d[1:3, ]), augment = list(newdata = d[1:3, ]), diagnose = list(data = d, eps = 1), "[[" = list(1)
  )
  # operators without `...`, and what is refused whatever the arguments
  apart <- c("$", "[", "length", "names", "update", "add1", "str")
  registered <- getNamespaceInfo("dpstats", "S3methods")
  # what other packages call hands on the arguments of users
  registered <- registered[is.na(registered[, 4]), ]
  tried <- 0
  for (k in seq_len(nrow(registered))) {
    generic <- registered[k, 1]
    class <- registered[k, 2]
    if (generic %in% apart || !class %in% names(objects) || registered[k, 3] == "diagnose.dpstats_groups") next
    method <- getS3method(generic, class, envir = asNamespace("dpstats"))
    tried <- tried + 1
    said <- tryCatch({
      utils::capture.output(do.call(method, c(unname(objects[class]), needed[[generic]], list(nonsense = 918273))))
      NULL
    }, error = identity)
    text <- if (is.null(said)) "nothing" else conditionMessage(said)
    refused <- inherits(said, "dpstats_not_released") || grepl("there is no argument 'nonsense'", text)
    expect_true(refused, info = paste(generic, class, text))
  }
  expect_gt(tried, 80)
})

test_that("names of columns without quotes, and fits that are not in a list, are told apart", {
  d <- with_response(some_rows(300))
  expect_error(dp_ols(y ~ x, d, eps = 1, by = g), "by must be NULL or the name of a column, in quotes.", fixed = TRUE)
  expect_error(dp_ols(y ~ x, d, eps = 1, unit = nothing), "unit must be NULL or the name of a column, in quotes.", fixed = TRUE)
  expect_error(dp_combine(made_fit(), made_fit()), "dp_combine(list(fit1, fit2))", fixed = TRUE)
})

test_that("an argument that is nearly right is told what it may be", {
  d <- with_response(some_rows(300))
  expect_error(dp_tukey_em(y ~ x, d, eps = 1, neighbors = "substitution"), "'neighbors'; did you mean 'neighbours'?", fixed = TRUE)
  expect_error(confint(made_fit(), levels = 0.9), "there is no argument 'levels'; did you mean 'level'?", fixed = TRUE)
  expect_error(confint(made_fit(), nonsense = 0.9), "there is no argument 'nonsense'.", fixed = TRUE)
})

test_that("functions that take data say what to do in place of arguments of lm()", {
  d <- with_response(some_rows(300))
  expect_snapshot(error = TRUE, {
    dp_ols(y ~ x, d, eps = 1, subset = x > 3)
    dp_ols(y ~ x, d, eps = 1, weights = nothing)
    dp_ols(y ~ x, d, eps = 1, weights = d$z)
    dp_ols(y ~ x, d, eps = 1, weights = z / mean(z))
    dp_huber(y ~ x, d, eps = 1, weights = z)
    dp_tukey_em(y ~ x, d, eps = 1, na.action = na.omit)
    dp_logit(f ~ x, d, eps = 1, offset = z)
    dp_glm(f ~ x, d, binomial(), eps = 1, subset = x > 3)
    dp_poisson(k ~ x, d, eps = 1, offset = log(z))
    dp_ols(y ~ g, d, eps = 1, contrasts = list(g = "contr.sum"))
    dp_ols(y ~ x, d, eps = 1, family = poisson())
    dp_mean(y ~ 1, d, eps = 1, na.rm = TRUE)
    dp_select_features(y ~ x + z, d, k = 1, eps = 1, subset = x > 3)
    dp_describe(d, eps = 1, subset = x > 3)
    dp_plan(y ~ x, d, n = 100, eps = 1, subset = x > 3)
    dp_theil_sen(y ~ x, d, 1, 2, NULL, NULL, NULL, NULL, NULL, NULL, 5)
  })
})

test_that("contrasts that a factor carries are refused, and those of the formula are not", {
  skip_without_python()
  d <- with_response(some_rows(1500))
  contrasts(d$g) <- "contr.sum"
  expect_snapshot(error = TRUE, {
    dp_ols(y ~ g, d, eps = 5)
    dp_ols(y ~ x:C(g), d, eps = 5)
  })
  expect_length(coef(dp_ols(y ~ C(g, contr.sum), d, eps = 5)), 4)
  attr(d$g, "contrasts") <- NULL
  expect_length(coef(dp_ols(y ~ g, d, eps = 5)), 4)
})

test_that("as.data.frame() does what it is asked", {
  skip_without_python()
  d <- with_response(some_rows(1500))
  table <- dp_describe(d, "x", eps = 5)
  expect_s3_class(as.data.frame(table, stringsAsFactors = TRUE)$statistic, "factor")
  expect_identical(row.names(as.data.frame(table, row.names = tidy(table)$statistic)), tidy(table)$statistic)
  expect_identical(data.frame(table), as.data.frame(table))
})

test_that("another name of eps is recognised where eps is missing", {
  d <- data.frame(x = 1:3, y = 1:3)
  expect_error(dp_ols(y ~ x, d, epsilon = 1), "did you mean eps by epsilon?", fixed = TRUE)
  expect_error(dp_ols(y ~ x, d), "eps is missing and has no default.", fixed = TRUE)
  expect_error(dp_quantile(y ~ 1, d, probs = 0.9, eps = 1), "did you mean q by probs?", fixed = TRUE)
})
