# Exact depth, computed by the Python package. Not private.

#' Halfspace and regression depth
#'
#' Exact integer depths, the deepest points and fits, and contours. **Not private**: tools for looking at data.
#'
#' @param points A matrix with one point in each row, or a vector for one point (for one column: several).
#' @param data A numeric matrix or data frame, or a vector for one column.
#' @param fits A matrix with one fit in each row, the intercept first, or a vector for one.
#' @param x Covariates without a constant: a vector, matrix or data frame.
#' @param y Response.
#' @param depths Positive counts.
#' @param method `"exact"`, `"directions"` (the minimum over a public set of directions, an upper bound), or `NULL`: exact
#'   where that is fast, and otherwise directions, with a warning.
#' @param directions How many random directions to add to the axes and sign vectors, or a matrix of directions.
#' @param rtol A residual counts as zero if it is at most this, relative to the terms that it is the sum of; by default
#'   that of the Python package.
#' @param max_sweeps Sweeps after which to stop without convergence.
#'
#' @return `depth_halfspace()` and `depth_regression()`: integer counts; divide by the number of rows for the depths of
#'   \pkg{mrfDepth} and \pkg{ddalpha}. `depth_contours()`: a list of matrices of vertices, counter-clockwise.
#'   `depth_tukey_median()`: a list with `point`, its `depth`, the `largest` of any point, and in
#'   `method`, `maximal` and `centre` what of it is exact.
#'   `depth_deepest_regression()`: a list with `fit` (intercept, slope), `depth` and the `rule` that chose it.
#'   `depth_medsweep()`: a list with `fit`, `sweeps` and `converged`.
#' @examplesIf dp_available()
#' depth_halfspace(c(3.5, 70), faithful)
#' depth_tukey_median(faithful[1:100, ])$point
#' depth_deepest_regression(mtcars$wt, mtcars$mpg)$fit
#' depth_regression(coef(lm(mpg ~ wt, mtcars)), mtcars$wt, mtcars$mpg)
#' @export
depth_halfspace <- function(points, data, method = NULL, directions = NULL) {
  as.integer(unlist(call_depth("halfspace", list(points = points, data = data),
                               list(method = method, directions = directions))))
}

#' @rdname depth_halfspace
#' @export
depth_tukey_median <- function(data, method = NULL, directions = NULL) {
  found <- call_depth("tukey_median", list(data = data), list(method = method, directions = directions))
  found$point <- stats::setNames(as_numbers(found$point), colnames(data))
  found
}

#' @rdname depth_halfspace
#' @export
depth_contours <- function(data, depths) {
  if (!is.numeric(depths)) fail("parameter_error", "depths must be positive whole numbers.")
  found <- call_depth("contours", list(data = data), list(depths = as.list(as.vector(depths))))
  lapply(found, function(v) matrix(as.double(unlist(v)), ncol = 2, dimnames = list(NULL, colnames(data))))
}

#' @rdname depth_halfspace
#' @export
depth_regression <- function(fits, x, y, method = NULL, rtol = NULL, directions = NULL) {
  own <- list(method = method, directions = directions)
  if (!is.null(rtol)) own$rtol <- rtol
  as.integer(unlist(call_depth("regression", list(fits = fits, x = x, y = y), own)))
}

#' @rdname depth_halfspace
#' @export
depth_deepest_regression <- function(x, y) {
  found <- call_depth("deepest_regression", list(x = x, y = y), list())
  found$fit <- stats::setNames(as_numbers(found$fit), c("(Intercept)", "x"))
  found
}

#' @rdname depth_halfspace
#' @export
depth_medsweep <- function(x, y, max_sweeps = 100) {
  found <- call_depth("medsweep", list(x = x, y = y), list(max_sweeps = max_sweeps))
  names <- if (is.null(colnames(x))) paste0("x", seq_len(length(found$fit) - 1)) else colnames(x)
  found$fit <- stats::setNames(as_numbers(found$fit), c("(Intercept)", names))
  found
}

call_depth <- function(name, arrays, options) {
  arrays <- Map(cross_array, arrays, names(arrays))
  if (!is.null(options$directions) && length(options$directions) > 1) {
    options$directions <- cross_array(as.matrix(options$directions), "directions")
  } else {
    options <- for_python(options)
  }
  answer <- unwrap(bridge()$depth(name, unname(arrays), options))
  for (text in as.character(answer$warnings)) warning(in_r_words(text), call. = FALSE)
  answer$found
}

cross_array <- function(x, name) {
  if (is.data.frame(x)) {
    if (!all(vapply(x, function(v) is.numeric(v) && !is.factor(v), NA))) {
      fail("parameter_error", name, " must have numeric columns.")
    }
    x <- as.matrix(x)
  }
  if (!is.numeric(x) || length(dim(x)) > 2) fail("parameter_error", name, " must be a numeric vector or matrix.")
  shape <- if (is.null(dim(x)) || length(dim(x)) == 1) list(rows = length(x)) else list(rows = nrow(x), columns = ncol(x))
  c(list(values = writeBin(as.double(x), raw())), shape)
}
