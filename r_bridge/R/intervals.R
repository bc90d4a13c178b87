# Intervals of any confidence from what was released: Wald intervals, intervals released for one confidence, and those of
# noise whose scale was itself released with noise. The same quantiles as in the Python package.

interval_ends <- function(object, level) {
  estimates <- unname(object$coefficients)
  interval <- object$interval
  if (is.null(interval)) {
    half <- critical_value(object$df, level) * unname(standard_errors(object))
    return(cbind(estimates - half, estimates + half))
  }
  if (interval$kind == "fixed") {
    if (abs(level - (1 - object$alpha)) > 1e-9) {
      fail("parameter_error", "level must be ", format(1 - object$alpha), ", the confidence of the released intervals, not ",
           format(level), ".")
    }
    return(cbind(interval$lower, interval$upper))
  }
  half <- if (interval$kind == "noise") {
    noise_quantile(interval$rate, 1 - level) * interval$scales
  } else {
    line_half_widths(interval, 1 - level)
  }
  cbind(estimates - half, estimates + half)
}

# The 1 - alpha quantile of E exp(-L), E standard exponential and L Laplace of the given rate.
noise_quantile <- function(rate, alpha) mixed_quantile(function(c) exp(-c), rate, alpha)

# A line v1, v2 at two points has the intercept (b v1 - a v2) / (b - a) and the slope (v2 - v1) / (b - a), so its
# noise is a weighted sum of two Laplace variables; weights are rounded up to sixty-fourths.
line_half_widths <- function(interval, alpha) {
  a <- interval$at[1]
  b <- interval$at[2]
  weights <- abs(rbind(c(b, -a), c(-1, 1)) / (b - a))
  apply(weights, 1, function(w) {
    ratio <- ceiling(64 * min(w) / max(w)) / 64
    interval$scale * max(w) * mixed_quantile(function(c) two_laplace_tail(c, ratio), interval$rate, alpha)
  })
}

# P(|Z1 + w Z2| > c) for standard Laplace variables and 0 <= w <= 1.
two_laplace_tail <- function(c, w) {
  if (w > 0.999) return((1 + c / 2) * exp(-c))
  (exp(-c) - (if (w > 0) w^2 * exp(-c / w) else 0)) / (1 - w^2)
}

# The c with E tail(c exp(L)) = alpha, L Laplace of the given rate.
mixed_quantile <- function(tail, rate, alpha) {
  beyond <- function(log_c) {
    integrand <- function(t) {
      0.5 * exp(-t) * (tail(exp(pmin(log_c + t / rate, 700))) + tail(exp(pmin(log_c - t / rate, 700))))
    }
    stats::integrate(integrand, 0, 60, rel.tol = 1e-10, subdivisions = 1000L, stop.on.error = FALSE)$value
  }
  exp(stats::uniroot(function(x) beyond(x) - alpha, c(-60, 60 + 60 / rate), tol = 1e-10)$root)
}
