# Stored values of tests/regression/test_logit.py: glm on data that both languages can make.
#   Rscript tests/reference/glm.R
i <- 1:20000
u <- (i * 0.6180339887498949) %% 1
x1 <- sin(i)
x2 <- cos(0.7 * i) + 0.5 * x1
y <- as.numeric(u < plogis(-0.5 + x1 - 0.7 * x2))
counts <- qpois(u, exp(0.5 + 0.4 * x1 - 0.3 * x2))
options(digits = 15)
for (fit in list(glm(y ~ x1 + x2, binomial), glm(counts ~ x1 + x2, poisson))) {
  print(unname(coef(fit)))
  print(unname(sqrt(diag(vcov(fit)))))
  print(c(deviance(fit), fit$null.deviance))
}
