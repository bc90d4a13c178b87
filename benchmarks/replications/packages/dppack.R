# Called by study.py: Rscript dppack.R SOURCES WHAT ROWS BOUNDS OUT
# SOURCES: the folder R/ of the sources of DPpack (0.2.2; needs R6, nloptr, rmutil). WHAT "summary": ROWS has a data set
# in each column, BOUNDS two numbers; "lm": ROWS has columns, last the response, of all data sets and their number
# in `set`, BOUNDS lower and upper of every column. eps = 1, one row added or removed; delta = 1e-6 for "lm".
given <- commandArgs(TRUE)
for (file in c("AnalyticGaussianMechanismUtils.R", "DataAccess.R", "Mechanisms.R", "StatFunctions.R", "StatModels.R"))
  source(file.path(given[1], file))
rows <- read.csv(given[3])
bounds <- read.csv(given[4])
set.seed(1)
if (given[2] == "summary") {
  found <- t(sapply(rows, function(x) {
    quantile_of <- function(q) quantileDP(x, q, 1, bounds$lower, bounds$upper, which.sensitivity = "unbounded")
    c(meanDP(x, 1, bounds$lower, bounds$upper, which.sensitivity = "unbounded"), quantile_of(0.5), quantile_of(0.9))
  }))
} else {
  found <- do.call(rbind, lapply(split(rows, rows$set), function(part) {
    X <- part[setdiff(names(part), c("set", "y"))]
    fit <- LinearRegressionDP$new("l2", 1, 1e-6, 1)
    fit$fit(X, part["y"], bounds$upper, bounds$lower, add.bias = FALSE)
    as.numeric(fit$coeff)
  }))
}
write.table(found, given[5], sep = ",", row.names = FALSE, col.names = FALSE)
