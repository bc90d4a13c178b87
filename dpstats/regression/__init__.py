"""One file an estimator of a regression."""
