test_that("the kind of a column is that of its type", {
  expect_equal(kind_of(1, "a"), "number")
  expect_equal(kind_of(1L, "a"), "number")
  expect_equal(kind_of(I(1), "a"), "number")
  expect_equal(kind_of(TRUE, "a"), "truth")
  expect_equal(kind_of("a", "a"), "text")
  expect_equal(kind_of(factor("a"), "a"), "factor")
  expect_equal(kind_of(structure(1, class = "integer64"), "a"), "number")
  strange <- list(as.Date(1, origin = "1970-01-01"), Sys.time(), as.difftime(1, units = "mins"), 1i, list(1), diag(2),
                  as.raw(1), structure(1, class = "haven_labelled"))
  for (x in strange) expect_snapshot(kind_of(x, "a"), error = TRUE)
})

test_that("integer64 is read from its bits", {
  bits <- function(low, high) {
    x <- readBin(writeBin(as.vector(rbind(low, high)), raw(), endian = "little"), "double", length(low), endian = "little")
    structure(x, class = "integer64")
  }
  expect_equal(numbers_in(bits(c(7L, -1L, NA, 0L, 0L), c(0L, -1L, 0L, 1L, NA))), c(7, -1, 2^31, 2^32, NA))
})

test_that("codes of levels, NA for what is none", {
  expect_equal(codes_in(factor(c("b", "a", NA)), c("a", "b")), c(2L, 1L, NA))
  expect_equal(codes_in(c("b", NA, "c"), c("a", "b")), c(2L, NA, NA))
  expect_equal(codes_in(c(2, NA, NaN, 3), c(1, 2)), c(2L, NA, NA, NA))
  expect_equal(codes_in(c(TRUE, NA, FALSE), c(FALSE, TRUE)), c(2L, NA, 1L))
  expect_equal(codes_in(factor("1"), 1:2), NA_integer_)
  expect_equal(levels_of(addNA(factor(c("a", NA)))), "a")
  expect_equal(codes_in(addNA(factor(c("a", NA))), "a"), c(1L, NA))
})

test_that("an odd record changes no other", {
  ordinary <- list(x = c(1, 2, 3), i = 1:3, g = c("a", "b", "a"), f = factor(c("a", "b", "a")), b = c(TRUE, FALSE, TRUE))
  levels <- list(x = c(1, 3), i = c(1, 3), g = c("a", "b"), f = c("b", "a"), b = c(FALSE, TRUE))
  strange <- list(
    x = list(NA, NaN, Inf, -0, 2^70), i = list(NA, .Machine$integer.max),
    g = list(NA, "", "NA", "\xff", "\xffa", `Encoding<-`("\xff", "bytes"), `Encoding<-`("\xe4", "latin1"), strrep("a", 1e5)),
    f = list(NA), b = list(NA)
  )
  for (name in names(ordinary)) for (value in strange[[name]]) {
    column <- ordinary[[name]]
    column[2] <- value
    expect_identical(kind_of(column, name), kind_of(ordinary[[name]], name))
    expect_silent(codes <- codes_in(column, levels[[name]]))
    expect_identical(codes[-2], codes_in(ordinary[[name]], levels[[name]])[-2])
    if (!name %in% c("g", "f")) expect_identical(numbers_in(column)[-2], numbers_in(ordinary[[name]])[-2])
  }
})

test_that("levels that are declared win over those of a factor", {
  x <- factor(c("a", "b", "Jane Doe"))
  expect_silent(check_levels(c("u", "a"), "g", list(g = x)))
  crossed <- cross_column(x, c("u", "a"))
  expect_equal(crossed$levels, list("u", "a"))
  expect_equal(readBin(crossed$values, "integer", 3, size = 4), c(2L, 0L, 0L))
})

test_that("data and declarations are checked before anything is read", {
  d <- data.frame(x = 1:2, y = 2:3)
  expect_snapshot(error = TRUE, {
    dp_ols(y ~ x, eps = 1)
    dp_ols(y ~ x, 1:3, eps = 1)
    dp_ols(y ~ x, list(1, 2), eps = 1)
    dp_ols(y ~ x, list(x = 1, y = 1:2), eps = 1)
    dp_ols(y ~ x, d)
    dp_ols(y ~ x, d, eps = NA)
    dp_ols(y ~ x, d, eps = 1, bounds = c(0, 1))
    dp_ols(y ~ x, d, eps = 1, bounds = list(x = c(0, NA)))
    dp_ols(y ~ x, d, eps = 1, levels = list("a"))
    dp_ols(y ~ x, d, eps = 1, levels = list(w = "a"))
    dp_ols(y ~ x, d, eps = 1, by = 3)
    dp_ols(y ~ x, d, eps = 1, ledger = 3)
    dp_ols(y ~ x, stats::setNames(cbind(d, 1), c("x", "y", "x")), eps = 1)
  })
})
