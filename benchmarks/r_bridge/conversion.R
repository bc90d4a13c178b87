# What the border to Python costs: a million rows of ten columns, converted and fitted.
#
# Usage: RETICULATE_PYTHON=.venv/bin/python Rscript benchmarks/r_bridge/conversion.R   (with the R package installed)
# Writes conversion.csv beside it: the least of several runs that take turns, in seconds.
library(dpstats)

folder <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(FALSE), value = TRUE)))
rows <- 1e6
runs <- 5

set.seed(1)
numbers <- as.data.frame(matrix(rnorm(rows * 9), rows))
numbers$y <- as.matrix(numbers) %*% rep(1, 9) + rnorm(rows)
numbers$y <- as.double(numbers$y)
kinds <- data.frame(
  numbers[paste0("V", 1:4)],
  i = sample.int(100, rows, replace = TRUE),
  j = sample(c(1:10, NA), rows, replace = TRUE),
  f = factor(sample(letters[1:6], rows, replace = TRUE)),
  g = factor(sample(letters[1:3], rows, replace = TRUE)),
  l = sample(c(TRUE, FALSE), rows, replace = TRUE),
  y = numbers$y
)
text <- transform(kinds, f = as.character(f), g = as.character(g))
levels <- list(f = letters[1:6], g = letters[1:3])
cases <- list(
  "10 columns of doubles" = list(data = numbers, levels = NULL),
  "5 doubles, 2 integers, 2 factors, 1 logical" = list(data = kinds, levels = NULL),
  "5 doubles, 2 integers, 2 of text, 1 logical" = list(data = text, levels = levels)
)

seconds <- function(expr) system.time(expr, gcFirst = TRUE)[["elapsed"]]
prepare <- function(case) dpstats:::prepare(y ~ ., case$data, case$levels, NULL, NULL)
# reticulate's copy into Python, and what the bridge makes of it, without a fit
reticulate::py_run_string("
from dpstats.bridge import received
rows = lambda columns: min(map(len, received(columns).values()))
")
arrive <- function(request) reticulate::py$rows(request$columns)
fit <- function(case) dp_ols(y ~ ., case$data, eps = 1, levels = case$levels)

invisible(fit(cases[[1]])) # compiles, and loads what is loaded on first use
results <- do.call(rbind, lapply(names(cases), function(name) {
  case <- cases[[name]]
  times <- replicate(runs, {
    in_r <- seconds(request <- prepare(case))
    border <- seconds(arrive(request))
    whole <- seconds(fit(case))
    c(in_r = in_r, border = border, whole = whole)
  })
  least <- apply(times, 1, min)
  conversion <- sum(least[c("in_r", "border")])
  fit_alone <- least[["whole"]] - conversion
  data.frame(
    data = name, rows = rows, in_r = round(least[["in_r"]], 3), border = round(least[["border"]], 3),
    conversion = round(conversion, 3), dp_ols = round(least[["whole"]], 3), fit_alone = round(fit_alone, 3),
    conversion_over_fit = round(conversion / fit_alone, 3)
  )
}))
utils::write.csv(results, file.path(folder, "conversion.csv"), row.names = FALSE)
print(results)
