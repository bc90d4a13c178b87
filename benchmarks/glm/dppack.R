# Called by others.py: Rscript dppack.R SOURCES ROWS OUT STRENGTH SEED RELEASES
# SOURCES: the folder R/ of the sources of DPpack (0.2.2; needs R6, nloptr, rmutil); ROWS: a CSV of the columns and, last, the response.
given <- commandArgs(TRUE)
for (file in c("AnalyticGaussianMechanismUtils.R", "DataAccess.R", "Mechanisms.R", "StatFunctions.R", "StatModels.R"))
  source(file.path(given[1], file))
rows <- read.csv(given[2])
X <- rows[-ncol(rows)]
y <- rows[ncol(rows)]
gamma <- as.numeric(given[4]) # LogisticRegressionDP reads it from here, and not the one it is given
releases <- lapply(as.integer(given[5]) + seq_len(as.integer(given[6])) - 1L, function(seed) {
  set.seed(seed)
  fit <- LogisticRegressionDP$new("l2", 1, gamma, "objective")
  fit$fit(X, y, sapply(X, max), sapply(X, min), add.bias = TRUE)
  as.numeric(fit$coeff)
})
write.table(do.call(rbind, releases), given[3], sep = ",", row.names = FALSE, col.names = FALSE)
