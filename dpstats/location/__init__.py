"""The estimators of location, one file each: median and quantile, mean, Tukey median, bounding box."""
