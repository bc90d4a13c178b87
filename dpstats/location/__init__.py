"""One file an estimator: median, quantile, mean, Tukey median, bounding box."""
