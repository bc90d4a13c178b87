# Stored values of tests/regression/test_huber.py: MASS::rlm on data that both languages can make.
#   Rscript tests/reference/huber_rlm.R
library(MASS)
i <- 1:20000
u <- (i * 0.6180339887498949) %% 1
x1 <- sin(i)
x2 <- cos(0.7 * i) + 0.5 * x1
y <- 1 + 2 * x1 - 3 * x2 + qt(0.001 + 0.998 * u, 2) / 3
for (k in c(1.345, 0.5)) {
  fit <- rlm(y ~ x1 + x2, psi = psi.huber, k = k, maxit = 500, acc = 1e-12)
  cat(sprintf("%.3f scale %.15g coefficients %s\n", k, fit$s, paste(sprintf("%.15g", coef(fit)), collapse = " ")))
}
