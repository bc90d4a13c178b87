# Rows with a missing value of any kind are not used, as in Python.

spoilt <- list(
  "NA_real_" = function(d) { d$x[5] <- NA_real_; d },
  "NaN" = function(d) { d$x[5] <- NaN; d },
  "Inf" = function(d) { d$x[5] <- -Inf; d },
  "NA_integer_" = function(d) { d$k[5] <- NA_integer_; d },
  "NA logical" = function(d) { d$f[5] <- NA; d },
  "NA factor" = function(d) { d$g[5] <- NA; d },
  "NA ordered factor" = function(d) { d$o[5] <- NA; d },
  "NA as a level" = function(d) { d$g[5] <- NA; d$g <- addNA(d$g); d },
  "NA_character_" = function(d) { d$t[5] <- NA_character_; d },
  "undeclared text" = function(d) { d$t[5] <- "w"; d },
  "response" = function(d) { d$y[5] <- NA; d },
  "text NA" = function(d) { d$t[5] <- "NA"; d },
  "most negative integer" = function(d) { d$k[5] <- NA; d$k <- as.double(d$k); d }
)

test_that("a missing value of each type drops its row, in the fit and in predictions", {
  skip_without_python()
  d <- with_response(some_rows(1500))
  d$t <- c("u", "v")[1 + (seq_len(nrow(d)) %% 3 == 0)]
  fit <- function(d) {
    dp_ols(y ~ x + k + f + g + o + t, d, eps = 3, seed = 4, levels = list(t = c("u", "v")))
  }
  whole <- fit(d)
  without <- fit(d[-5, ])
  expect_false(identical(coef(whole), coef(without)))
  for (kind in names(spoilt)) {
    e <- spoilt[[kind]](d)
    expect_identical(coef(fit(e)), coef(without), info = kind)
    expect_identical(unname(is.na(predict(whole, e[4:6, ]))), c(FALSE, kind != "response", FALSE), info = kind)
  }
})

test_that("missing values are dropped as in Python", {
  skip_without_python()
  d <- with_response(some_rows(1500))
  for (kind in setdiff(names(spoilt), c("NA_character_", "undeclared text", "text NA", "NA as a level"))) {
    e <- spoilt[[kind]](d)
    fit <- dp_ols(y ~ x + k + f + g + o, e, eps = 3, seed = 4)
    found <- python_reference("ols", "y ~ x + k + f + g + o", e, eps = 3, seed = 4L)
    expect_identical(unname(coef(fit)), found$estimate[match_columns(names(coef(fit)), found$names)], info = kind)
  }
})

test_that("other types are what they stand for", {
  skip_without_python()
  d <- with_response(some_rows(1500))
  fit <- function(d) unname(coef(dp_ols(y ~ x + k, d, eps = 3, seed = 4)))
  reference <- fit(d)
  e <- transform(d, k = as.double(k), x = I(x))
  expect_identical(fit(e), reference)
  bits <- as.vector(rbind(d$k, 0L))
  d$k <- structure(
    readBin(writeBin(bits, raw(), endian = "little"), "double", nrow(d), endian = "little"), class = "integer64"
  )
  expect_identical(fit(d), reference)
  expect_identical(fit(as.list(d)), reference)
})

test_that("a file is read by Python", {
  skip_without_python()
  d <- with_response(some_rows(1500))[c("x", "k", "g", "y")]
  d[c("x", "y")] <- round(d[c("x", "y")], 6) # a file has 15 digits
  d$x[3] <- NA
  path <- tempfile(fileext = ".csv")
  utils::write.csv(d, path, row.names = FALSE, na = "")
  levels <- list(g = c("a", "b", "c"))
  d$g <- as.character(d$g)
  from_file <- dp_ols(y ~ x + k + g, path, eps = 3, seed = 4, levels = levels)
  expect_identical(coef(from_file), coef(dp_ols(y ~ x + k + g, d, eps = 3, seed = 4, levels = levels)))
  expect_identical(coef(dp_ols(y ~ ., path, eps = 3, seed = 4, levels = levels)), coef(from_file))
  expect_equal(predict(from_file, d[1:5, ])[c(1, 3)], c("1" = predict(from_file, d[1, ])[[1]], "3" = NA))
  expect_snapshot(error = TRUE, dp_ols(y ~ w, path, eps = 3))
  expect_snapshot(error = TRUE, dp_ols(y ~ x, "no-such-file.csv", eps = 3))
})

test_that("names and levels of any letters", {
  skip_without_python()
  d <- with_response(some_rows(1500))
  e <- stats::setNames(d[c("y", "x", "g")], c("y", "gr\u00f6\u00dfe \"x\" \\", "in"))
  levels(e[["in"]]) <- c("\u00e9t\u00e9", "a'b\"c", "[T.x]", "%")
  fit <- dp_ols(y ~ ., e, eps = 3, seed = 1)
  expect_identical(unname(coef(fit)), unname(coef(dp_ols(y ~ x + g, d, eps = 3, seed = 1))))
  names <- names(coef(stats::lm(y ~ ., e)))
  expect_equal(names(coef(fit))[1:4], names[1:4])
  expect_equal(unname(predict(fit, e[1:3, ])), unname(predict(dp_ols(y ~ x + g, d, eps = 3, seed = 1), d[1:3, ])))
  latin <- e
  levels(latin[["in"]])[1] <- iconv("\u00e9t\u00e9", "UTF-8", "latin1")
  expect_identical(coef(dp_ols(y ~ ., latin, eps = 3, seed = 1)), coef(fit))
})
