# One number in the types that say how it is shown, as their packages make them.
shown_otherwise <- list(
  scale = scale(c(1, 2, 4)), labelled = structure(1, class = c("labelled", "numeric"), label = "Weight"),
  haven = structure(1, class = c("haven_labelled", "vctrs_vctr", "double"), labels = c(yes = 1)),
  units = structure(1, class = "units", units = list(numerator = "m", denominator = character())),
  ts = stats::ts(c(1, 2, 4), start = 1990), date = as.Date("2020-01-02"), integer_date = structure(3L, class = "Date"),
  time = as.POSIXct("2020-01-02", tz = "UTC"), difftime = as.difftime(1, units = "mins")
)

test_that("the kind of a column is that of its type", {
  expect_equal(kind_of(1, "a"), "number")
  expect_equal(kind_of(1L, "a"), "number")
  expect_equal(kind_of(I(1), "a"), "number")
  expect_equal(kind_of(TRUE, "a"), "truth")
  expect_equal(kind_of("a", "a"), "text")
  expect_equal(kind_of(factor("a"), "a"), "factor")
  expect_equal(kind_of(structure(1, class = "integer64"), "a"), "number")
  for (x in shown_otherwise) expect_equal(kind_of(x, "a"), "number")
  expect_equal(kind_of(structure(TRUE, class = c("labelled", "logical")), "a"), "truth")
  expect_equal(kind_of(structure("u", class = c("haven_labelled", "vctrs_vctr", "character")), "a"), "text")
  expect_equal(kind_of(structure(factor("u"), class = c("labelled", "factor")), "a"), "factor")
  strange <- list(1i, list(1), diag(2), array(1, c(1, 1, 2)), data.frame(u = 1), as.raw(1), structure(1, class = "yearmon"),
                  as.POSIXlt("2020-01-01", tz = "UTC"))
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
  for (odd in c(0, -1, 3, 2^31, 1e300, NaN, Inf)) {
    # (a file may hold what class() does not allow)
    other <- serialize(structure(c(1, odd, 2), levels = c("a", "b"), class = "factoX"), NULL, ascii = TRUE)
    doubles <- unserialize(charToRaw(sub("factoX", "factor", rawToChar(other))))
    expect_type(doubles, "double")
    expect_silent(codes <- codes_in(doubles, c("b", "a")))
    expect_identical(codes, c(2L, NA, 1L))
  }
  expect_equal(codes_in(c("b", NA, "c"), c("a", "b")), c(2L, NA, NA))
  expect_equal(codes_in(c(2, NA, NaN, 3), c(1, 2)), c(2L, NA, NA, NA))
  expect_equal(codes_in(c(TRUE, NA, FALSE), c(FALSE, TRUE)), c(2L, NA, 1L))
  expect_equal(codes_in(factor("1"), 1:2), NA_integer_)
  expect_equal(levels_of(addNA(factor(c("a", NA)))), "a")
  expect_equal(codes_in(addNA(factor(c("a", NA))), "a"), c(1L, NA))
})

test_that("times are days, whatever their units and zones", {
  expect_equal(numbers_in(as.Date("1970-01-11") + 0:1), c(10, 11))
  expect_equal(numbers_in(structure(10L, class = "Date")), 10)
  expect_equal(numbers_in(as.POSIXct("1970-01-11 12:00", tz = "UTC")), 10.5)
  noon <- as.POSIXct("1970-01-11 12:00", tz = "UTC")
  expect_equal(numbers_in(structure(noon, tzone = "Asia/Tokyo")), 10.5)
  for (units in names(seconds_in)) {
    expect_equal(numbers_in(as.difftime(7 * 86400 / seconds_in[[units]], units = units)), 7)
  }
})

test_that("durations are the same numbers in all units", {
  # R chooses units by the smallest: one record may change those of a column
  waits <- c(60 * 1:300, 1:100 / 1000, 7 * 86400, 1 / 3, -5, 0, NA)
  begun <- as.POSIXct("2020-01-01", tz = "UTC")
  numbers <- numbers_in(as.difftime(waits, units = "secs"))
  for (units in names(seconds_in)) {
    expect_identical(numbers_in(as.difftime(waits / seconds_in[[units]], units = units)), numbers)
  }
  minutes <- 60 * c(2, 4, 8, 13)
  alone <- (begun + minutes) - begun
  beside <- (begun + c(minutes, 1)) - begun
  expect_false(units(alone) == units(beside))
  expect_identical(numbers_in(beside)[1:4], numbers_in(alone))
})

test_that("a column crosses row by row", {
  int64 <- function(x) structure(ifelse(is.na(x), -0.0, x * 4.9406564584124654e-324), class = "integer64")
  columns <- list(
    int64(c(NA, 7, NA)), c(NA, 1.5, NA), c(NA, 3L, NA), as.Date(c(NA, "2020-01-02", NA)), c(NA, TRUE, NA),
    as.POSIXct(c(NA, "2020-01-02", NA), tz = "UTC"), as.difftime(c(NA, 2, NA), units = "hours")
  )
  for (x in columns) {
    whole <- cross_column(x)$values
    at <- function(i) if (inherits(x, "integer64")) structure(unclass(x)[i], class = "integer64") else x[i]
    expect_identical(do.call(c, lapply(1:3, function(i) cross_column(at(i))$values)), whole)
    expect_length(cross_column(at(0))$values, 0)
  }
})

test_that("values that a type declares to be missing are missing", {
  spss <- function(x, ...) structure(x, class = c("haven_labelled_spss", "haven_labelled", "vctrs_vctr", typeof(x)), ...)
  expect_equal(numbers_in(spss(c(1, 8, 9, NA, 97, 120), na_values = 9, na_range = c(97, 99))), c(1, 8, NA, NA, NA, 120))
  expect_equal(numbers_in(spss(c(1, 9))), c(1, 9))
  expect_equal(valid_text(spss(c("u", "refused", NA), na_values = "refused")), c("u", NA, NA))
  expect_equal(codes_in(spss(c("u", "refused"), na_values = "refused"), c("refused", "u")), c(2L, NA))
  latin <- `Encoding<-`("\xe9", "latin1")
  for (odd in list(`Encoding<-`("caf\xe9", "bytes"), `Encoding<-`("\xff", "UTF-8"), latin)) {
    for (declared in list(list(na_values = c("refused", latin)), list(na_values = "refused", na_range = c("v", "z")))) {
      x <- do.call(spss, c(list(c("u", odd, "refused", "w")), declared))
      expect_silent(text <- valid_text(x))
      expect_identical(text[-2], valid_text(do.call(spss, c(list(c("u", "u", "refused", "w")), declared)))[-2])
      expect_silent(codes <- codes_in(x, c("u", "w")))
      expect_identical(codes[1], 1L)
    }
  }
})

test_that("columns of such types are those that they stand for", {
  skip_without_python()
  d <- with_response(some_rows(1500))
  fit <- function(x, ...) dp_ols(y ~ x, replace(d, "x", list(x)), eps = 3, seed = 4, ...)
  reference <- fit(d$x)
  alike <- list(
    stats::ts(d$x, start = 1990), structure(d$x, class = c("labelled", "numeric"), label = "Weight"),
    structure(d$x, class = c("haven_labelled", "vctrs_vctr", "double"), labels = c(none = 0)),
    structure(d$x, class = "units", units = list()), structure(d$x, class = "Date"), matrix(d$x),
    structure(d$x * 86400, class = c("POSIXct", "POSIXt")), structure(d$x, class = "difftime", units = "days")
  )
  for (x in alike) {
    expect_equal(coef(fit(x)), coef(reference), tolerance = 1e-6)
    expect_equal(predict(fit(x), list(x = x[1:3])), predict(reference, list(x = d$x[1:3])), tolerance = 1e-6)
  }
  e <- replace(d, "x", list(scale(d$x)))
  expect_equal(coef(fit(e$x)), coef(fit(as.vector(e$x))))
  expect_match(fit(e$x)$notes, "made by scale()", fixed = TRUE, all = FALSE)
  dates <- as.Date("2020-01-01") + round(d$x)
  expect_match(fit(dates)$notes, "Column 'x' is in days since 1970-01-01.", fixed = TRUE, all = FALSE)
  bounded <- fit(dates, bounds = list(x = as.Date(c("2019-12-01", "2020-02-01"))))
  expect_equal(coef(bounded), coef(fit(dates, bounds = list(x = as.numeric(as.Date(c("2019-12-01", "2020-02-01")))))))
  expect_message(dp_describe(data.frame(x = dates), eps = 3), "Column 'x' is in days since 1970-01-01.", fixed = TRUE)
  expect_snapshot(error = TRUE, dp_mean(y ~ 1, replace(d, "g", list(dates)), eps = 1, by = "g", levels = list(g = 1:2)))
})

test_that("what is said of a column is said of its type", {
  other <- function(x) { x[1] <- NA; x }
  for (x in shown_otherwise) {
    expect_identical(about_columns(list(a = other(x)), "a"), about_columns(list(a = x), "a"))
    expect_identical(kind_of(other(x), "a"), kind_of(x, "a"))
  }
})

test_that("rows that are elsewhere have to be fetched", {
  lazy <- structure(list(src = list(), lazy_query = list()), class = c("tbl_SQLiteConnection", "tbl_dbi", "tbl_sql", "tbl_lazy", "tbl"))
  expect_snapshot(error = TRUE, dp_ols(y ~ x, lazy, eps = 1))
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
    dp_ols(y ~ x, d, eps = 1, by = c("x", "y"))
    dp_ols(y ~ x, d, eps = 1, ledger = 3)
    dp_ols(y ~ x, stats::setNames(cbind(d, 1), c("x", "y", "x")), eps = 1)
  })
})
