test_that("depths are those of Python", {
  skip_without_python()
  d <- as.matrix(some_rows(60)[c("x", "z")])
  y <- with_response(some_rows(60))$y
  depth <- reticulate::import("dpstats")$depth
  lists <- function(m) lapply(seq_len(nrow(m)), function(i) as.list(unname(m[i, ])))
  plain <- function(v) as.numeric(reticulate::py_to_r(v$tolist()))
  py <- reticulate::py_run_string("import dpstats.depth as depth", convert = FALSE)$depth
  expect_identical(depth_halfspace(d, d), as.integer(plain(py$halfspace(lists(d), lists(d)))))
  expect_identical(depth_halfspace(c(1, 2), d), as.integer(plain(py$halfspace(list(1, 2), lists(d)))))
  expect_identical(depth_halfspace(c(1, 2), as.data.frame(d)), depth_halfspace(c(1, 2), d))
  median <- depth_tukey_median(d)
  expect_named(median$point, c("x", "z"))
  expect_identical(depth_halfspace(median$point, d), as.integer(median$depth))
  fit <- depth_deepest_regression(d[, "x"], y)
  expect_identical(depth_regression(fit$fit, d[, "x"], y), as.integer(fit$depth))
  swept <- depth_medsweep(d, y)
  expect_named(swept$fit, c("(Intercept)", "x", "z"))
  expect_equal(unname(swept$fit), plain(py$medsweep(lists(d), as.list(y))$fit))
  polygons <- depth_contours(d, c(5, 10))
  expect_length(polygons, 2)
  expect_equal(ncol(polygons[[1]]), 2)
  expect_true(all(depth_halfspace(polygons[[2]], d) >= 9))
})

test_that("approximate depths say so, and arguments are checked", {
  skip_without_python()
  d <- matrix(sin(1:2000), ncol = 5)
  expect_warning(depth_halfspace(d[1, ], d), "directions")
  expect_silent(depth_halfspace(d[1, ], d, method = "directions", directions = 20))
  expect_silent(depth_halfspace(d[1, ], d, method = "directions", directions = diag(5)))
  expect_snapshot(error = TRUE, {
    depth_halfspace("a", d)
    depth_halfspace(c(1, NA, 1, 1, 1), d)
    depth_halfspace(c(1, 2), d)
    depth_halfspace(d[1, ], d, method = "fast")
    depth_tukey_median(data.frame(a = "b"))
  })
})
