# Units of several rows.

panel <- function(units = 3000) {
  i <- seq_len(units)
  size <- 1 + (i * 7) %% 4
  id <- rep(i, size)
  n <- length(id)
  unit <- (seq_len(n) * 0.6180339887) %% 1
  d <- data.frame(x = sin(3 * id), z = stats::qnorm(unit), patient = paste0("p", id))
  d$y <- 1 + d$x - 0.5 * d$z + cos(5 * id) + stats::qnorm((seq_len(n) * 0.7548776662) %% 1)
  d <- d[order((seq_len(n) * 0.5698402910) %% 1), ]
  d$group <- factor(c("a", "b")[1 + seq_len(n) %% 2])
  d
}

test_that("units of any type give what Python gives", {
  skip_without_python()
  d <- panel()
  fit <- dp_ols(y ~ x + z, d, eps = 3, unit = "patient", seed = 1)
  expect_equal(fit$guarantee$unit, "patient")
  expect_equal(fit$cov_type, "cluster")
  expect_match(paste(capture.output(summary(fit)), collapse = " "), "all rows of one 'patient'\\s+added or removed")
  expect_match(paste(capture.output(summary(fit)), collapse = " "), "units \\(a noisy count\\)")
  for (other in list(factor(d$patient), match(d$patient, unique(d$patient)))) {
    again <- dp_ols(y ~ x + z, transform(d, patient = other), eps = 3, unit = ~patient, seed = 1)
    expect_equal(coef(again), coef(fit))
  }
  missing <- d
  missing$patient[1:500] <- NA
  missing$patient[501:600] <- ""
  expect_equal(
    coef(dp_ols(y ~ x + z, missing, eps = 3, unit = "patient", seed = 1)),
    coef(dp_ols(y ~ x + z, d[-(1:600), ], eps = 3, unit = "patient", seed = 1))
  )
})

integer64 <- function(x, high) {
  # the two halves of 64 bits, in the place of a double
  bytes <- rbind(matrix(writeBin(as.integer(x), raw(), endian = "little"), 4), matrix(writeBin(rep(as.integer(high), length(x)), raw(), endian = "little"), 4))
  structure(readBin(as.raw(bytes), "double", length(x), endian = "little"), class = "integer64")
}

test_that("a factor with a code of no level has no unit there, and stops nothing", {
  codes <- structure(c(1L, 5L, 2L, 0L, NA), levels = c("a", "b"), class = "factor")
  expect_identical(cross_unit(codes, "id"), cross_unit(factor(c("a", NA, "b", NA, NA)), "id"))
  for (class in c("Date", "integer64")) {
    expect_error(cross_unit(structure(c("1", "secret"), class = class), "id"), "neither numeric", class = "dpstats_schema_error")
  }
})

test_that("no units are taken for one", {
  skip_without_python()
  d <- panel(3000)
  id <- match(d$patient, unique(d$patient))
  with_ids <- function(ids) {
    d$patient <- ids
    d
  }
  expect_false(anyDuplicated(numbers_in(integer64(1:9, 1e9))) == 0) # as numbers they are
  moments <- .POSIXct(1.7e9 + 2^-22 * id, "UTC")
  days <- structure(id, class = "Date")
  for (ids in list(integer64(id, 1e9), moments, days)) {
    sent <- with_unit(list(), with_ids(ids), "patient")
    expect_identical(sent$patient, cross_column(as.double(id)))
  }
  expect_identical(whole_keys(integer64(c(0L, -1L, 1L), -1)), c("-1 0", "-1 4294967295", "-1 1"))
  missing <- structure(readBin(as.raw(c(rep(0, 7), 128)), "double", 1, endian = "little"), class = "integer64")
  expect_identical(whole_keys(missing), NA_character_)
  count <- function(ids) dp_mean(y ~ 1, with_ids(ids), eps = 8, unit = "patient", seed = 1)$released[["n"]]
  expect_gt(count(integer64(id, 1e9)), 2900)
  d$many <- integer64(id, 1e9)
  d$wait <- as.difftime(id, units = "mins")
  expect_error(dp_ols(y ~ many, d, eps = 1, unit = "many"), "may take different units for one", class = "dpstats_error")
  expect_error(dp_describe(d, "x", eps = 1, unit = "wait"), "holds durations", class = "dpstats_error")
})

test_that("weights, effects, groups and the other verbs take units", {
  skip_without_python()
  d <- panel()
  weighted <- dp_ols(y ~ x + z, d, eps = 3, unit = "patient", weights = "unit", seed = 1)
  expect_false(isTRUE(all.equal(coef(weighted), coef(dp_ols(y ~ x + z, d, eps = 3, unit = "patient", seed = 1)))))
  within <- dp_ols(y ~ z, d, eps = 3, unit = "patient", effects = "unit", seed = 1)
  expect_named(coef(within), "z")
  expect_equal(unname(coef(within)), -0.5, tolerance = 0.1)
  expect_length(dp_huber(y ~ x, d, eps = 3, by = "group", unit = "patient", seed = 1), 2)
  for (fit in list(
    dp_median(y ~ 1, d, eps = 3, unit = "patient", seed = 1), dp_tukey_em(y ~ x, d, eps = 8, unit = "patient", seed = 1),
    dp_glm(I(y > 1) ~ x, d, binomial(), eps = 3, unit = "patient", seed = 1),
    dp_select_features(y ~ x + z, d, k = 1, eps = 3, unit = "patient", seed = 1)
  )) expect_equal(dp_guarantee(fit)$unit, "patient")
})

test_that("mistakes about units are told", {
  skip_without_python()
  d <- panel(100)
  expect_error(dp_ols(y ~ x, d, eps = 1, unit = 3), "unit must be NULL or the name of a column", class = "dpstats_error")
  expect_error(dp_ols(y ~ x, d, eps = 1, unit = "person"), "there is no column 'person'", class = "dpstats_error")
  expect_error(dp_ols(y ~ x, d, eps = 1, weights = "unit"), "weights must be", class = "dpstats_error")
  expect_error(dp_ols(y ~ x, d, eps = 1, unit = "patient", cov_type = "nonrobust"), "cov_type must be", class = "dpstats_error")
})

test_that("a ledger of units takes no records, and the other way round", {
  skip_without_python()
  d <- panel()
  ledger <- dp_ledger(":memory:", eps = 3, delta = 1e-5, unit = "patient")
  expect_equal(ledger$unit, "patient")
  fit <- dp_median(y ~ 1, d, eps = 1, unit = "patient", ledger = ledger)
  expect_error(dp_median(y ~ 1, d, eps = 1, ledger = ledger), "is about all rows of one 'patient'", class = "dpstats_error")
  expect_equal(dp_remaining(ledger)[["eps"]], 2)
  records <- dp_ledger(":memory:", eps = 3, delta = 1e-5)
  expect_error(dp_median(y ~ 1, d, eps = 1, unit = "patient", ledger = records), "is about single records", class = "dpstats_error")
})
