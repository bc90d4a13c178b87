test_that("groups are a collection of fits", {
  skip_without_python()
  d <- with_response(some_rows())
  fits <- dp_ols(y ~ x, d, eps = 5, by = "g", seed = 2)
  expect_length(fits, 4)
  expect_equal(names(fits), c("a", "b", "c", "never"))
  expect_s3_class(fits[["a"]], "dp_ols")
  expect_identical(coef(fits)["b", ], coef(fits[["b"]]))
  expect_identical(unname(coef(fits)["never", ]), c(NA_real_, NA_real_))
  expect_equal(nrow(tidy(fits)), 8)
  expect_equal(levels(tidy(fits)$g), names(fits))
  expect_equal(glance(fits)$failed, 1)
  expect_equal(nrow(confint(fits, "x")), 4)
  expect_equal(deparse1(formula(fits)), "y ~ x")
  expect_equal(predict(fits, d[1:9, ])[["2"]], predict(fits[["c"]], d[2, ])[["2"]])
  expect_true(is.na(predict(fits, transform(d[1, ], g = "never"))))
  expect_error(fits[["never"]], class = "dpstats_release_failed")
  expect_snapshot(fits[["nobody"]], error = TRUE)
  expect_identical(coef(dp_ols(y ~ x, d, eps = 5, by = ~g, seed = 2)), coef(fits))
  expect_s3_class(dp_guarantee(fits), "dpstats_guarantee")
})

test_that("logical and numeric groups", {
  skip_without_python()
  d <- with_response(some_rows())
  fits <- dp_median(y ~ 1, d, eps = 5, by = "f", seed = 2)
  expect_equal(names(fits), c("FALSE", "TRUE"))
  expect_type(tidy(fits)$f, "logical")
  fits <- dp_median(y ~ 1, d, eps = 5, by = "k", levels = list(k = 0:3), seed = 2)
  expect_equal(tidy(fits)$k, 0:3)
  expect_snapshot(dp_median(y ~ 1, d, eps = 5, by = "k"), error = TRUE)
  expect_snapshot(dp_median(y ~ 1, transform(d, g = as.character(g)), eps = 5, by = "g"), error = TRUE)
})

test_that("many groups, for which Python starts processes", {
  skip_without_python()
  d <- data.frame(y = sin(1:60000), tract = factor(rep(1:300, 200)))
  fits <- dp_median(y ~ 1, d, eps = 5, by = "tract")
  expect_equal(dim(coef(fits)), c(300, 1))
  expect_false(anyNA(coef(fits)))
})

test_that("what is printed", {
  fits <- structure(list(
    method = "Private OLS", formula = y ~ x, by = "g", levels = factor(c("a", "b", "c"), c("a", "b", "c")),
    results = list(a = made_fit(), c = made_fit()), failed = c(b = "Too few rows."), guarantee = made_fit()$guarantee
  ), class = c("dp_ols_groups", "dpstats_groups"))
  expect_snapshot({
    fits
    print(fits, n = 2)
    summary(fits)
  })
  none <- unclass(fits)
  none$results <- list()
  none$failed <- c(a = "No.", b = "No.", c = "No.")
  none <- structure(none, class = class(fits))
  expect_snapshot(none)
})

test_that("each group prints its own notes, and common ones once", {
  fits <- list(a = list(notes = c("Of all.", "Limits 1.")), b = list(notes = c("Of all.", "Limits 2.")))
  expect_identical(notes_of_groups(fits), c("Of all.", "a: Limits 1.", "b: Limits 2."))
  many <- stats::setNames(lapply(1:20, function(i) list(notes = paste("Limits", i))), paste0("g", 1:20))
  expect_identical(notes_of_groups(many)[12:13], c("g12: Limits 12", "8 more notes: fits[[group]]$notes has those of a group."))
  expect_null(notes_of_groups(list()))
})
