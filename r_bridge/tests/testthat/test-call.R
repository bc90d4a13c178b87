# The call of a fit: update(), terms(), and what is never kept.

test_that("the call of a fit is kept as it was written, and update() runs it again", {
  skip_without_python()
  d <- with_response(some_rows(1500))
  budget <- 3
  fit <- dp_ols(y ~ x * g, d, eps = budget, bounds = list(x = c(-5, 8)), seed = 1)
  expect_identical(
    getCall(fit), quote(dp_ols(formula = y ~ x * g, data = d, eps = budget, bounds = list(x = c(-5, 8)), seed = 1))
  )
  expect_identical(
    update(fit, log(.) ~ . - x:g + z, eps = 2, seed = NULL, evaluate = FALSE),
    quote(dp_ols(formula = log(y) ~ x + g + z, data = d, eps = 2, bounds = list(x = c(-5, 8))))
  )
  again <- update(fit)
  expect_identical(coef(again), coef(fit))
  expect_identical(again$call, fit$call)
  other <- update(fit, . ~ x, eps = 2 * budget)
  expect_named(coef(other), c("(Intercept)", "x"))
  expect_identical(dp_guarantee(other)$eps, 6)
  # `.` is written out, and the chosen model is not what was asked for
  chosen <- dp_ols(y ~ ., d[c("y", "x", "z", "f")], eps = 5, select = 1)
  expect_identical(chosen$call$formula, quote(y ~ x + z + f))
  expect_identical(update(chosen, . ~ . - f, data = d, evaluate = FALSE)$formula, quote(y ~ x + z))
  expect_length(labels(chosen), 1)
  logit <- dp_glm(f ~ x, d, family = binomial, eps = 3)
  expect_identical(logit$call, quote(dp_glm(formula = f ~ x, data = d, family = binomial, eps = 3)))
  expect_s3_class(update(logit, . ~ z), "dp_logit")
  fits <- dp_ols(y ~ x, d, eps = 5, by = "g")
  expect_identical(getCall(fits), quote(dp_ols(formula = y ~ x, data = d, eps = 5, by = "g")))
  expect_s3_class(update(fits, by = "f"), "dpstats_groups")
  expect_identical(labels(terms(fits)), "x")
  expect_identical(dpstats::dp_median(y ~ 1, d, eps = 1)$call[[1]], quote(dpstats::dp_median))
})

test_that("a new release is charged to the ledger of the call", {
  skip_without_python()
  d <- with_response(some_rows(500))
  ledger <- dp_ledger(":memory:", eps = 2.5, delta = 0)
  fit <- dp_median(y ~ 1, d, eps = 1, ledger = ledger)
  update(fit)
  expect_equal(dp_remaining(ledger)[["eps"]], 0.5)
  expect_error(update(fit), class = "dpstats_budget_exceeded")
})

# Every way in which rows might come into a call; none of their numbers may be in what is saved.
test_that("no row is in a saved fit", {
  skip_without_python()
  d <- with_response(some_rows(1500))
  number <- 918273.645
  d$y[1] <- number
  d$unit <- as.character(seq_len(nrow(d)))
  d$unit[1] <- "SENTINEL-ROW"
  formula <- y ~ x
  environment(formula) <- list2env(list(rows = d))
  groups <- ~g
  environment(groups) <- environment(formula)
  ends <- d$y
  ends[1] <- 3
  fits <- list(
    do.call(dp_ols, list(y ~ x, d, eps = 3)),
    do.call("dp_ols", list(formula, d, eps = 3, unit = "unit")),
    do.call(dp_ols, list(formula = formula, data = as.list(d), eps = 3, by = groups)),
    do.call(dp_glm, list(f ~ x, d, family = binomial(), eps = 3)),
    eval(bquote(dp_ols(y ~ x, .(d), eps = 3, bounds = list(y = range(.(ends)))))),
    eval(bquote(dp_ols(y ~ x, data = list(x = .(d$x), y = .(d$y)), eps = 3))),
    dp_ols(y ~ x, data.frame(x = d$x, y = c(918273.645, d$y[-1])), eps = 3),
    dp_ols(y ~ x, d[d$unit != "SENTINEL-ROW" | d$y == 918273.645, ], eps = 3),
    lapply(list(d), dp_ols, formula = formula, eps = 3)[[1]],
    (function(rows) dp_ols(formula, rows, eps = 3, bounds = list(y = (function(r) c(-20, 40))(rows))))(d),
    dp_ols(formula, d, eps = 3)
  )
  as_bytes_of <- function(x) paste(as.character(x), collapse = "")
  sentinels <- c(
    as_bytes_of(writeBin(number, raw(), endian = "little")), as_bytes_of(writeBin(number, raw(), endian = "big")),
    as_bytes_of(charToRaw("918273")), as_bytes_of(charToRaw("SENTINEL"))
  )
  for (text in sentinels[c(2, 4)]) expect_match(as_bytes_of(serialize(d, NULL)), text, fixed = TRUE)
  for (fit in fits) {
    saved <- serialize(fit, NULL)
    expect_lt(length(saved), 60000)
    for (text in sentinels) expect_no_match(as_bytes_of(saved), text, fixed = TRUE, info = deparse1(getCall(fit)))
    expect_identical(environment(terms(fit)), globalenv())
    expect_null(environment(getCall(fit)$formula))
  }
  # of the data, only a name
  kept <- vapply(fits, function(fit) deparse1(getCall(fit)$data), "")
  expect_identical(kept, c(rep("<data not kept>", 9), "rows", "d"))
})

test_that("update() asks for data that were not kept, and says what else it cannot do", {
  skip_without_python()
  d <- with_response(some_rows(1500))
  held <- do.call(dp_ols, list(y ~ x, d, eps = 3))
  gone <- (function(rows) dp_ols(y ~ x, rows, eps = 3))(d)
  pipe <- (function(.) dp_ols(y ~ x, ., eps = 3))(d)
  pooled <- dp_combine(dp_ols(y ~ x, d, eps = 5, by = "f"))
  expect_snapshot(error = TRUE, {
    update(held, . ~ . + z)
    update(held, evaluate = FALSE)
    update(gone)
    update(pipe)
    update(pooled)
    update(dp_ols(y ~ x, d, eps = 5, by = "f")[["TRUE"]])
    update(made_fit())
    update(held, "y ~ x", data = d)
    update(held, . ~ ., 3, data = d)
    update(held, data = d, evaluate = 2)
    update(held, data = d, epsilon = 2)
  })
  expect_identical(update(held, . ~ . + z, data = d, evaluate = FALSE)$data, quote(d))
  expect_named(coef(update(gone, data = d)), c("(Intercept)", "x"))
})

test_that("terms, labels and names", {
  fit <- made_fit(formula = y ~ x * g + offset(log(w)))
  expect_identical(labels(fit), c("x", "g", "x:g"))
  expect_identical(attr(terms(fit), "term.labels"), labels(fit))
  expect_identical(environment(terms(fit)), globalenv())
  expect_identical(variable.names(fit), names(coef(fit)))
  expect_identical(family(made_fit(design = list()))$family, "gaussian")
  expect_error(family(made_fit()), class = "dpstats_not_released")
})

test_that("drop1() tests what can be dropped, from the release", {
  skip_without_python()
  d <- with_response(some_rows(1500))
  fit <- dp_ols(y ~ x * g + z, d, eps = 5, seed = 1)
  found <- drop1(fit, test = "Wald")
  expect_identical(rownames(found), c("z", "x:g"))
  whole <- anova(fit)
  for (column in names(whole)) expect_identical(found[[column]], whole[rownames(found), column])
  expect_identical(rownames(drop1(fit, ~x)), "x")
  expect_identical(rownames(drop1(fit, c("z", "g"))), c("g", "z"))
  expect_snapshot(error = TRUE, {
    drop1(fit, test = "Chisq")
    drop1(fit, k = 2)
    drop1(fit, scale = 1)
    drop1(fit, ~w)
    drop1(fit, trace = TRUE)
    drop1(made_fit(covers = "privacy noise only"))
    add1(fit, ~ . + k)
    step(fit)
  })
})
