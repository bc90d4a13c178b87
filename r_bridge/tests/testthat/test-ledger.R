test_that("a ledger is charged, and refuses what does not fit", {
  skip_without_python()
  path <- tempfile(fileext = ".db")
  ledger <- dp_ledger(path, eps = 3, delta = 1e-5)
  fit <- dp_median(mpg ~ 1, mtcars, eps = 1, ledger = ledger)
  expect_equal(dp_remaining(ledger), c(eps = 2, delta = 1e-5))
  dp_median(log(mpg) ~ 1, mtcars, eps = 1, ledger = path)
  expect_equal(dp_remaining(dp_ledger(path))[["eps"]], 1)
  refused <- tryCatch(dp_median(mpg ~ 1, mtcars, eps = 2.5, ledger = ledger), error = identity)
  expect_s3_class(refused, "dpstats_budget_exceeded")
  expect_match(conditionMessage(refused), "Nothing was charged and no data were read")
  releases <- as.data.frame(ledger)
  expect_equal(releases$formula, c("mpg ~ 1", "np.log(mpg) ~ 1"))
  expect_equal(releases$eps, c(1, 1))
  expect_s3_class(releases$charged_at, "POSIXct")
  expect_identical(releases$seeded, c(FALSE, FALSE))
  expect_false(anyNA(releases$charged_at))
  expect_output(print(ledger), "Privacy ledger")
  expect_equal(nrow(tidy(ledger)), 2)
  expect_equal(dp_remaining(ledger, "substitution")[["eps"]], 3)
})

test_that("a ledger in memory has no second budget in another session", {
  skip_without_python()
  ledger <- dp_ledger(":memory:", eps = 1, delta = 0)
  d <- data.frame(x = 1:500)
  dp_median(x ~ 1, d, eps = 1, ledger = ledger)
  again <- unserialize(serialize(ledger, NULL))
  expect_error(dp_median(x ~ 1, d, eps = 1, ledger = again), class = "dpstats_budget_exceeded")
  # as another session knows it: not at all, or by a name of its own
  elsewhere <- dp_ledger(":memory:", eps = 100, delta = 0)
  for (name in list("1", NULL, 1)) {
    again["name"] <- list(name)
    expect_error(dp_median(x ~ 1, d, eps = 1, ledger = again), "belongs to another one", class = "dpstats_error")
    expect_error(dp_remaining(again), "belongs to another one", class = "dpstats_error")
  }
  expect_equal(unname(dp_remaining(elsewhere)), c(100, 0))
})

test_that("ledgers in memory are apart", {
  skip_without_python()
  one <- dp_ledger(":memory:", eps = 3, delta = 1e-5)
  two <- dp_ledger(":memory:", eps = 3, delta = 1e-5)
  dp_median(mpg ~ 1, mtcars, eps = 1, ledger = one)
  expect_equal(dp_remaining(one)[["eps"]], 2)
  expect_equal(dp_remaining(two)[["eps"]], 3)
  expect_equal(nrow(as.data.frame(two)), 0)
})

test_that("errors", {
  skip_without_python()
  missing <- "give delta too (0 for pure releases alone): dp_ledger('new.db', eps = 3, delta = 1e-5)"
  expect_error(dp_ledger(file.path(tempdir(), "new.db"), eps = 1), missing, fixed = TRUE)
  expect_snapshot(error = TRUE, {
    dp_ledger()
    dp_ledger(":memory:")
    dp_ledger(":memory:", eps = -1, delta = 0)
    dp_ledger(":memory:", eps = 1, delta = 0, composition = "best")
    dp_median(mpg ~ 1, mtcars, eps = 1, ledger = 5)
    dp_remaining(dp_ledger(":memory:", eps = 1, delta = 0), "nobody")
  })
})
