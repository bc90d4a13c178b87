test_that("a saved fit needs no Python and holds no row", {
  skip_without_python()
  skip_on_cran()
  d <- with_response(some_rows())
  secret <- d
  local({
    inner <- secret
    fit <- dp_ols(y ~ x + g, data = inner, eps = 3, seed = 1)
    fits <- dp_median(y ~ 1, inner, eps = 3, by = "g", seed = 1)
    path <<- tempfile(fileext = ".rds")
    saveRDS(list(fit, fits), path)
    # without the notes, which are in a fit twice, and of which one table may have more
    bytes <- function(fit) length(serialize(fit, NULL)) - 2 * sum(nchar(fit$notes))
    size <<- bytes(fit)
    half <<- bytes(dp_ols(y ~ x + g, data = inner[1:1500, ], eps = 3, seed = 1))
    expected <<- list(summary(fit), tidy(fits), predict(fit, inner[1:5, ]))
    all_there <<- rapply(unclass(fit), function(v) typeof(v), how = "unlist")
  })
  # limits of columns that move differ in their digits
  expect_lt(abs(size - half), 200)
  expect_lt(size, 20000)
  expect_false(any(c("environment", "closure", "externalptr") %in% all_there))
  expect_identical(environment(formula(readRDS(path)[[1]])), globalenv())
  script <- tempfile(fileext = ".R")
  new <- tempfile(fileext = ".rds")
  saveRDS(d[1:5, ], new)
  writeLines(c(
    "library(dpstats)",
    sprintf("kept <- readRDS(%s)", deparse(path)),
    sprintf("found <- list(summary(kept[[1]]), tidy(kept[[2]]), predict(kept[[1]], readRDS(%s)))", deparse(new)),
    "capture.output(print(found), print(kept)) -> shown",
    "stopifnot(!reticulate::py_available())",
    sprintf("saveRDS(found, %s)", deparse(new))
  ), script)
  env <- c("RETICULATE_PYTHON=/nonexistent/python", paste0("R_LIBS=", paste(.libPaths(), collapse = .Platform$path.sep)))
  out <- system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", script), stdout = TRUE, stderr = TRUE, env = env)
  expect_null(attr(out, "status"), info = paste(out, collapse = "\n"))
  expect_equal(readRDS(new), expected)
})

test_that("data in the call are not kept", {
  skip_without_python()
  d <- with_response(some_rows(1500))
  d$y[1] <- 123456.789
  fit <- do.call(dp_ols, list(y ~ x, d, eps = 3))
  numbers <- unlist(rapply(unclass(fit), function(v) if (is.numeric(v)) v, how = "unlist"))
  expect_false(any(abs(numbers - 123456.789) < 1e-9, na.rm = TRUE))
})
