test_that("weights of rows are those of lm(), whatever names them", {
  skip_without_python()
  d <- data.frame(x = sin(1:5000), w = 1 + (1:5000) %% 7, g = factor(rep(c("a", "b"), 2500)))
  d$y <- d$x + d$w / 7 * cos(1:5000) + (d$w > 4)
  theirs <- coef(lm(y ~ x + g, d, weights = w))
  own <- function(...) dp_ols(y ~ x + g, d, eps = 1e6, delta = 1e-3, seed = 1, ...)
  fit <- dp_ols(y ~ x + g, d, eps = 1e6, delta = 1e-3, seed = 1, weights = w)
  expect_identical(coef(own(weights = w)), coef(fit))
  expect_equal(coef(fit), theirs, tolerance = 1e-2)
  expect_gt(max(abs(coef(lm(y ~ x + g, d)) - theirs)), 0.05)
  expect_identical(coef(own(weights = "w")), coef(fit))
  expect_identical(coef(own(weights = 1 * w)), coef(fit))
  expect_identical(coef(dp_ols(y ~ ., d, eps = 1e6, delta = 1e-3, seed = 1, weights = w))[names(theirs)], coef(fit))
  expect_identical(coef(own(weights = NULL)), coef(own()))
  e <- stats::setNames(d, c("x", "row", "g", "y"))
  expect_identical(coef(dp_ols(y ~ x + g, e, eps = 1e6, delta = 1e-3, seed = 1, weights = row)), coef(fit))
  column <- "w"
  expect_identical(coef(own(weights = column)), coef(fit))
  expect_identical(coef(update(fit, . ~ .)), coef(fit))
  expect_equal(coef(dp_glm(y ~ x + g, d, gaussian(), eps = 1e6, delta = 1e-3, seed = 1, weights = w)), coef(fit))
  expect_identical(unname(predict(fit, d[1:3, c("x", "g")])), unname(predict(fit, d[1:3, ])))
  expect_match(paste(capture.output(summary(fit)), collapse = " "), "Rows count by their weights, w.", fixed = TRUE)
})

test_that("a column cut at breaks is that of lm(), also in predictions", {
  skip_without_python()
  d <- data.frame(age = rep(0:99, 40), g = factor(rep(c("a", "b"), each = 2000)))
  d$y <- (d$age > 40) + 2 * (d$age > 65) + (d$g == "b") + sin(seq_len(4000))
  new <- data.frame(age = c(-5, 0, 40, 41, 65, 99, 100, NA), g = factor("b", levels = c("a", "b")))
  for (f in list(
    y ~ g * cut(age, c(-1, 40, 65, Inf)), y ~ g + cut(age, seq(0, 99, by = 33), right = FALSE, include.lowest = TRUE),
    y ~ cut(age, c(0, 40, 99), include.lowest = TRUE, labels = c("young", "old")) - 1
  )) {
    fit <- dp_ols(f, d, eps = 1e6, delta = 1e-3, seed = 1)
    theirs <- lm(f, d)
    expect_equal(coef(fit), coef(theirs), tolerance = 1e-2)
    expect_equal(is.na(predict(fit, new)), is.na(predict(theirs, new)))
    expect_equal(predict(fit, new), predict(theirs, new), tolerance = 1e-2)
  }
  f <- y ~ C(cut(age, c(-1, 40, 65, Inf)), contr.sum)
  expect_equal(coef(dp_ols(f, d, eps = 1e6, delta = 1e-3, seed = 1)), coef(lm(f, d)), tolerance = 1e-2)
})

test_that("the table is laid out as that of lm()", {
  expect_snapshot({
    print(made_fit())
    summary(made_fit())
    summary(made_fit(), level = 0.9)
    print(summary(made_fit()), signif.stars = TRUE)
    summary(made_fit(df = 7))
    summary(made_fit(covers = "privacy noise only"))
    summary(made_fit(covers = "There are none.", vcov = NULL))
    summary(made_fit(names = c("(Intercept)", "a_rather_long_name_of_a_column", "another_rather_long_name")))
    # units that differ much
    summary(made_fit(coefficients = c("(Intercept)" = 123456.7, x = 3.25, gb = 5e-05), vcov = diag(c(4e4, 0.25, 1e-12))))
    summary(made_fit(coefficients = c("(Intercept)" = 123456.7, x = NA, gb = 5e-05), vcov = diag(c(4e4, NA, 1e-12))))
  })
})

test_that("a table in units that differ much takes what printCoefmat() takes", {
  fit <- made_fit(coefficients = c("(Intercept)" = 123456.7, x = NA, gb = 5e-05), vcov = diag(c(4e4, NA, 1e-12)))
  expect_snapshot({
    print(summary(fit), signif.stars = TRUE)
    print(summary(fit), signif.stars = TRUE, signif.legend = FALSE, na.print = "-", dig.tst = 1, eps.Pvalue = 0.001)
  })
})

test_that("what print() sets itself is refused before anything is printed", {
  for (name in c("P.values", "has.Pvalue", "cs.ind", "tst.ind", "zap.ind")) {
    call <- c(list(summary(made_fit())), stats::setNames(list(FALSE), name))
    printed <- capture.output(expect_error(do.call(print, call), paste0("there is no argument '", name, "'")))
    expect_identical(printed, character())
  }
})

test_that("the scale of Huber regression is not called a standard deviation", {
  printed <- capture.output(summary(made_fit(method = "Huber regression")))
  expect_match(printed, "^Residual scale \\(MAD\\): 1511,", all = FALSE)
  expect_no_match(printed, "standard deviation")
})

test_that("an interval that was released for one confidence has no other", {
  interval <- list(kind = "fixed", lower = c(-13, 3, 0), upper = c(-12, 4, Inf))
  fit <- made_fit(cov = NULL, vcov = NULL, interval = interval, alpha = 0.1)
  expect_snapshot({
    summary(fit)
    confint(fit)
  })
  expect_snapshot(confint(fit, level = 0.95), error = TRUE)
})

test_that("Wald intervals and tests are those of the normal and of Student's t distribution", {
  fit <- made_fit()
  se <- c(2, 0.5, 0.01)
  expect_equal(unname(confint(fit)), cbind(c(-12.5, 3.25, 0.05) - 1.959964 * se, c(-12.5, 3.25, 0.05) + 1.959964 * se),
               tolerance = 1e-6)
  expect_equal(colnames(confint(fit)), c("2.5 %", "97.5 %"))
  expect_equal(rownames(confint(fit, "x", level = 0.9)), "x")
  expect_error(confint(fit, method = "profile"), "there is no argument 'method'")
  expect_equal(rownames(confint(fit, 2:3)), c("x", "gb"))
  expect_equal(summary(fit)$coefficients[, 4], 2 * pnorm(-abs(c(-12.5, 3.25, 0.05) / se)), ignore_attr = TRUE)
  expect_equal(summary(made_fit(df = 7))$coefficients[, 4], 2 * pt(-abs(c(-12.5, 3.25, 0.05) / se), 7), ignore_attr = TRUE)
  expect_true(all(is.na(summary(made_fit(covers = "privacy noise only"))$coefficients[, 3:4])))
})

test_that("a summary has what that of lm() has, as far as it was released", {
  fit <- made_fit()
  found <- summary(fit)
  expect_equal(found$r.squared, 0.8565)
  expect_equal(found$adj.r.squared, 1 - (1 - 0.8565) * (53928.4 - 1) / (53928.4 - 3))
  expect_equal(c(found$sigma, sigma(found)), c(1511.2, 1511.2))
  expect_equal(found$df, c(3, 53928.4 - 3, 3))
  expect_error(found$residuals, "'residuals' has one entry for each row", class = "dpstats_not_released")
  bare <- summary(made_fit(released = list(n = NULL, sigma = NULL, rsquared = NULL)))
  expect_null(bare$r.squared)
  expect_null(bare$adj.r.squared)
  expect_equal(bare$df, c(3, NA, 3))
  expect_error(sigma(bare), "was not released by this fit", class = "dpstats_not_released")
})

test_that("an interval that is the whole line determines nothing", {
  interval <- list(kind = "fixed", lower = c(-Inf, 1, 0), upper = c(Inf, 2, Inf))
  expect_identical(determined(made_fit(interval = interval)), c(FALSE, TRUE, TRUE))
})

test_that("what is not determined has NA, and what has left the model no estimate either", {
  rows_of <- function(fit) {
    text <- utils::capture.output(print(summary(fit)))
    strsplit(trimws(text[match("Coefficients:", text) + 2:4]), " +")
  }
  nothing <- rows_of(made_fit(cov = matrix(NA_real_, 3, 3)))
  expect_identical(nothing[[2]], c("x", "3.25", rep("NA", 5)))
  left <- rows_of(made_fit(cov = diag(c(4, 0.25, NA)), coefficients = c("(Intercept)" = -12.5, x = 3.25, gb = 0)))
  expect_identical(left[[3]], c("gb", rep("NA", 6)))
  expect_identical(left[[2]][1:3], c("x", "3.25", "0.50"))
})

test_that("noise quantiles agree with simulation and with closed forms", {
  # P(E exp(-L) > c) for a rate so large that L is 0
  expect_equal(noise_quantile(1e6, 0.05), -log(0.05), tolerance = 1e-4)
  expect_equal(two_laplace_tail(1.7, 1), (1 + 1.7 / 2) * exp(-1.7))
  expect_equal(two_laplace_tail(1.7, 0), exp(-1.7))
  set.seed(1)
  n <- 4e5
  draws <- abs(rexp(n) * sample(c(-1, 1), n, TRUE) + 0.5 * rexp(n) * sample(c(-1, 1), n, TRUE)) *
    exp(rexp(n, 3) * sample(c(-1, 1), n, TRUE))
  quantile <- mixed_quantile(function(c) two_laplace_tail(c, 0.5), 3, 0.1)
  # 5 standard deviations of a share of 0.1
  expect_lt(abs(mean(draws > quantile) - 0.1), 5 * sqrt(0.09 / n))
})

test_that("broom's generics", {
  fit <- made_fit()
  expect_named(tidy(fit), c("term", "estimate", "std.error", "statistic", "p.value", "conf.low", "conf.high"))
  expect_named(tidy(fit, conf.int = FALSE), c("term", "estimate", "std.error", "statistic", "p.value"))
  expect_equal(tidy(fit, conf.level = 0.9)$conf.low, unname(confint(fit, level = 0.9)[, 1]))
  expect_equal(glance(fit)$nobs, 53928.4)
  expect_equal(nrow(glance(fit)), 1)
  expect_identical(nobs(fit), 53928.4)
  expect_identical(nobs(made_fit(released = list(n = NULL))), NA_real_)
  expect_equal(tidy(fit, exponentiate = TRUE)$estimate, exp(tidy(fit)$estimate))
  expect_equal(tidy(fit, exponentiate = TRUE)$std.error, tidy(fit)$std.error)
  expect_identical(nobs(made_fit(released = list(nobs = 32))), 32L)
  expect_equal(sigma(fit), 1511.2)
  expect_null(df.residual(fit))
  expect_equal(df.residual(made_fit(df = 7)), 7)
  expect_equal(deparse1(formula(fit)), "y ~ x + g")
  skip_if_not_installed("broom")
  expect_equal(broom::tidy(fit), tidy(fit))
})

test_that("covariances out of the rows are refused, and it is said where the released one is", {
  said <- "was not released; vcov\\(\\) has the covariance that was"
  refused <- function(make, fit) expect_error(make(fit), said, class = "dpstats_not_released")
  for (make in c(vcovHC.dpstats, estfun.dpstats)) refused(make, made_fit())
  for (make in c(vcovHC.dpstats_groups, estfun.dpstats_groups)) refused(make, made_groups())
  for (package in "sandwich") if (requireNamespace(package, quietly = TRUE)) {
    for (name in c("vcovHC", "estfun", "vcovCL", "NeweyWest")) refused(getExportedValue(package, name), made_fit())
    for (name in c("vcovHC", "estfun")) refused(getExportedValue(package, name), made_groups())
  }
})

test_that("what needs the rows stops and says why", {
  fit <- made_fit()
  expect_snapshot(error = TRUE, {
    residuals(fit)
    fitted(fit)
    predict(fit)
    weights(fit)
    hatvalues(fit)
    cooks.distance(fit)
    rstandard(fit)
    rstudent(fit)
    influence(fit)
    logLik(fit)
    AIC(fit)
    BIC(fit)
    deviance(fit)
    extractAIC(fit)
    anova(fit)
    model.frame(fit)
    model.matrix(fit)
    augment(fit)
    sigma(made_fit(released = list(sigma = NULL)))
    confint(fit, "w")
    confint(fit, level = 2)
    tidy(fit, conf.level = 90)
    summary(fit, level = NA)
    dp_guarantee(3)
  })
})

test_that("a plot is drawn", {
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  fit <- made_fit()
  expect_identical(plot(fit), fit)
  expect_identical(plot(fit, terms = "x", standardize = TRUE, level = 0.8), fit)
  expect_silent(plot(made_fit(cov = NULL, vcov = NULL, covers = "There are none."), intercept = TRUE))
  expect_silent(plot(fit, xlim = c(0, 3), ylim = c(0, 9), ylab = "Columns", pch = 3, main = "Mine", sub = "", col = 2, cex = 2))
  for (name in c("y", "yaxt", "mar", "nonsense")) {
    expect_error(do.call(plot, c(list(fit), stats::setNames(list(1), name))), paste0("there is no argument '", name, "'"))
  }
  expect_error(plot(fit, terms = "nope"), "^terms must be among the coefficients")
  expect_error(plot(made_groups(), terms = "nope"), "^terms must be among the coefficients")
})

# The texts of a plot and where they begin, from the left, in points.
texts_of_plot <- function(draw) {
  file <- tempfile(fileext = ".pdf")
  grDevices::pdf(file, compress = FALSE, useKerning = FALSE)
  draw()
  grDevices::dev.off()
  shown <- grep(" Tj$", readLines(file, warn = FALSE), value = TRUE)
  text <- sub(".* Tm \\((.*)\\) Tj$", "\\1", shown)
  list(text = gsub("\\", "", text, fixed = TRUE), left = as.numeric(sub(".* ([-0-9.]+) [-0-9.]+ Tm .*", "\\1", shown)))
}

test_that("a plot says what it shows, and long names have room", {
  guarantee <- made_fit()$guarantee
  guarantee$seeded <- TRUE
  long <- strrep("long_name_", 6)
  names <- c("(Intercept)", paste0("a", long), paste0("b", long))
  fit <- made_fit(names = names, guarantee = guarantee)
  found <- texts_of_plot(function() plot(fit, level = 0.9))
  expected <- c("Private OLS", "eps = 1, delta = 1e-06", "SEEDED: protects nobody", "90% intervals cover sampling and privacy noise")
  expect_true(all(expected %in% found$text))
  expect_true(all(found$left > 0))
  labels <- grep("..", found$text, fixed = TRUE, value = TRUE)
  expect_length(unique(labels), 2)
  found <- texts_of_plot(function() plot(made_fit(), main = "Mine"))
  expect_false(any(grepl("eps|SEEDED", found$text)))
  # names that differ in the middle alone
  middle <- paste0(long, c("one", "two"), long)
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  expect_false(anyDuplicated(shortened(middle, c("", " (n.d.)"), 2)) > 0)
  expect_true(all(inches_of(shortened(middle, c("", " (n.d.)"), 2)) <= 2))
  expect_identical(shortened(c("x", "x"), c("", ""), 2)[1], "x")
  fits <- stats::setNames(list(fit, fit), c(long, "c"))
  groups <- new_groups("Private OLS", y ~ x, "g", factor(c(long, "c")), fits, character(), guarantee, class = "dp_ols")
  found <- texts_of_plot(function() plot(groups))
  expect_true(all(c("Private OLS by g", expected[2:3], "95% intervals cover sampling and privacy noise") %in% found$text))
  expect_true(all(found$left > 0))
})

test_that("values that are no effects have no 0 in their axis", {
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  left <- function(x, ...) {
    plot(x, ...)
    graphics::par("usr")[1]
  }
  medians <- made_fit(formula = y ~ 1, coefficients = c("(Intercept)" = 5, x = 130, gb = 131))
  expect_gt(left(medians), 100)
  expect_lt(left(medians, standardize = TRUE), 0)
  expect_lt(left(made_fit(), terms = "x"), 0)
  fits <- list(a = medians, c = medians)
  expect_gt(left(new_groups("Median", y ~ 1, "g", factor(c("a", "c")), fits, character(), medians$guarantee, class = "dp_median")), 100)
  expect_silent(plot(made_fit(formula = y ~ 1, coefficients = c("(Intercept)" = 5, x = NA, gb = NA))))
})

test_that("a histogram holds the mean, and says what lies beyond its bars", {
  statistics <- data.frame(
    column = "x", statistic = c("mean", "25 %", "median", "75 %"), estimate = c(0.24, 0, 0, NA), std.error = NA,
    conf.low = c(0.23, 0, 0, NA), conf.high = c(0.25, 0, 0, NA)
  )
  drawn <- function(beyond) {
    bars <- list(ends = c(-0.003, 0.003), rows = 15200, beyond = beyond)
    x <- list(statistics = statistics, histograms = list(x = bars))
    texts_of_plot(function() {
      draw_histogram("x", x)
      expect_gt(graphics::par("usr")[2], 0.25)
    })$text
  }
  expect_true("24% of rows further right" %in% drawn(c(0, 0.24)))
  expect_true(all(c("25% of rows further left", "75% of rows further right") %in% drawn(c(0.25, 0.75))))
  expect_false(any(grepl("further", drawn(c(0, 0)))))
})

test_that("plots of groups tell what is not determined from groups without an estimate", {
  expect_true("b (no estimate)" %in% texts_of_plot(function() plot(made_groups()))$text)
  skip_without_python()
  set.seed(1)
  d <- data.frame(y = rnorm(500), g = factor(rep(c("a", "b"), c(495, 5))))
  medians <- suppressWarnings(dp_median(y ~ 1, d, eps = 1, by = "g", seed = 3))
  expect_true(all(c("a", "b (n.d.)") %in% texts_of_plot(function() plot(medians))$text))
})

test_that("predictions follow contrasts, splines, interactions and limits, as in Python", {
  skip_without_python()
  d <- with_response(some_rows(2000))
  new <- d[c(1:40, 500:520), ]
  formulas <- list(
    list(y ~ g * x + o:f, "y ~ g + x + g:x + o:f"),
    list(y ~ 0 + g + x, "y ~ 0 + g + x"),
    list(y ~ g:x - 1, "y ~ 0 + g:x"),
    list(y ~ g:o, "y ~ g:o"),
    list(y ~ C(g, contr.sum) + C(o, contr.helmert), "y ~ C(g, Sum) + C(o, Helmert)"),
    list(y ~ C(g, contr.poly):x + relevel(g, ref = "c"), "y ~ C(g, Treatment('c')) + C(g, Poly):x"),
    list(y ~ factor(k, levels = 0:9) + z, "y ~ C(k, levels=[0,1,2,3,4,5,6,7,8,9]) + z"),
    list(y ~ bs(x, knots = c(0, 2), Boundary.knots = c(-3, 5)) + f, "y ~ bs(x, knots=[0, 2], lower_bound=-3, upper_bound=5) + f"),
    list(y ~ bs(x, knots = c(0, 2)):f, "y ~ bs(x, knots=[0, 2]):f"),
    list(y ~ bs(z, knots = 2, degree = 2, intercept = TRUE, Boundary.knots = c(1, 3)) - 1,
         "y ~ 0 + bs(z, knots=[2], degree=2, include_intercept=True, lower_bound=1, upper_bound=3)"),
    list(y ~ log(z) + sqrt(abs(x)) + I(x^2 - 3 %% z) + ifelse(x > 2 & !f, z, 0) + I(x > 1),
         "y ~ np.log(z) + np.sqrt(np.abs(x)) + I(x**2 - 3 % z) + np.where((x > 2) & ~f, z, 0) + I(x > 1)"),
    list(y ~ pmin(x, z, 1) + pmax(x, 2) + round(x) + log(z + 1, 3) + as.numeric(f),
         "y ~ np.minimum(np.minimum(x, z), 1) + np.maximum(x, 2) + np.rint(x) + I(np.log(z + 1)/np.log(3)) + I(1*f)"),
    list(y ~ factor(floor(z), levels = 1:2) * x, "y ~ C(np.floor(z), levels=[1,2]) + x + C(np.floor(z), levels=[1,2]):x")
  )
  for (pair in formulas) {
    options <- list(eps = 5, seed = 2L, bounds = list(x = c(-2, 4)))
    fit <- do.call(dp_ols, c(list(pair[[1]], d), options))
    found <- do.call(python_reference, c(list("ols", pair[[2]], d, new = new), options))
    expect_equal(unname(predict(fit, new)), found$predict, tolerance = 1e-12, info = pair[[2]])
    expect_equal(sort(unname(coef(fit))), sort(found$estimate), tolerance = 0, info = pair[[2]])
    expect_false(anyDuplicated(names(coef(fit))) > 0)
  }
})

test_that("coefficients have the names and the order of lm()", {
  skip_without_python()
  d <- with_response(some_rows(2000))
  d$g <- droplevels(d$g)
  same <- list(
    y ~ x + g + f, y ~ log(z) * g, y ~ 0 + g + x, y ~ I(x^2) + k:g, y ~ C(g, contr.sum), y ~ g / x, y ~ I(x > 1),
    y ~ relevel(g, ref = "b"), y ~ factor(k, levels = 0:9), y ~ bs(x, knots = c(0, 2), Boundary.knots = c(-9, 9)),
    y ~ C(g, contr.poly), y ~ C(g, contr.helmert)
  )
  bs <- splines::bs
  for (formula in same) {
    environment(formula) <- environment()
    expect_equal(names(coef(dp_ols(formula, d, eps = 5))), names(coef(lm(formula, d))), info = deparse1(formula))
  }
  # as in Python, ordered factors get treatment contrasts
  expect_equal(names(coef(dp_ols(y ~ o, d, eps = 5))), c("(Intercept)", "ohigh"))
})

test_that("contrasts whose margin is missing have a column of their mean before the others", {
  skip_without_python()
  d <- with_response(some_rows(4000))
  d$g <- droplevels(d$g)
  d$y <- c(a = 1, b = 2, c = 6)[as.character(d$g)] + sin(seq_len(nrow(d))^2)
  own <- list(contr.sum = c("1", "2"), contr.helmert = c("1", "2"), contr.poly = c(".L", ".Q"))
  for (contrast in names(own)) {
    written <- sprintf("C(g, %s)", contrast)
    full <- coef(dp_ols(reformulate(c("0", written), "y"), d, eps = 100))
    expect_named(full, paste0(written, c("mean", own[[contrast]])))
    with_constant <- coef(dp_ols(reformulate(written, "y"), d, eps = 100))
    expect_identical(names(with_constant)[-1], names(full)[-1])
    expect_equal(full, with_constant, ignore_attr = TRUE, tolerance = 0.02)
    slopes <- names(coef(dp_ols(reformulate(paste0(written, ":x"), "y"), d, eps = 100)))
    expect_identical(slopes, c("(Intercept)", paste0(written, c("mean", own[[contrast]]), ":x")))
  }
  expect_named(coef(dp_ols(y ~ 0 + C(g, contr.treatment), d, eps = 100)), paste0("C(g, contr.treatment)", c("a", "b", "c")))
})

test_that("predictions refuse columns of another kind", {
  skip_without_python()
  d <- with_response(some_rows(1500))
  fit <- dp_ols(y ~ x + g, d, eps = 5)
  expect_snapshot(error = TRUE, {
    predict(fit, data.frame(x = 1))
    predict(fit, data.frame(x = "a", g = "a"))
    predict(fit, 3)
    predict(fit, d, interval = "tolerance")
    predict(fit, d, interval = "confidence", level = 95)
    predict(fit, d, se.fit = NA)
    predict(fit, d, type = "terms")
    predict(fit, d, weights = 1)
    predict(fit, d, 1, 2, 3, 4, 5)
  })
  expect_length(predict(fit, d[0, ]), 0)
  expect_equal(augment(fit, newdata = d[1:3, ])$.fitted, unname(predict(fit, d[1:3, ])))
  expect_snapshot(predict(dp_median(y ~ 1, d, eps = 1), d), error = TRUE)
})

undetermined_fit <- function(...) made_fit(cov = diag(c(4, 0.25, NA)), ...)

test_that("coefficients that are not determined are marked everywhere", {
  fit <- undetermined_fit(cov_type = "robust")
  expect_snapshot({
    fit
    summary(fit)
  })
  expect_identical(unname(is.na(confint(fit))), cbind(c(FALSE, FALSE, TRUE), c(FALSE, FALSE, TRUE)))
  row <- tidy(fit)[3, ]
  expect_identical(row$estimate, 0.05)
  expect_true(all(is.na(row[c("std.error", "statistic", "p.value", "conf.low", "conf.high")])))
  expect_identical(summary(fit)$determined, c(TRUE, TRUE, FALSE))
  expect_false(any(grepl("determined", capture.output(made_fit(), summary(made_fit())))))
  expect_true(all(determined(made_fit(vcov = NULL, covers = "There are none."))))
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  expect_silent(plot(fit))
})

test_that("the test of constant variance is given out if it was released", {
  fit <- made_fit(het = list(statistic = 41.25, pvalue = 0.03, df = 2))
  test <- dp_het_test(fit)
  expect_s3_class(test, "htest")
  expect_equal(unname(c(test$statistic, test$parameter, test$p.value)), c(41.25, 2, 0.03))
  expect_null(dp_het_test(made_fit(het = list(statistic = 1, pvalue = 0.3)))$parameter)
  expect_output(print(test), "constant error variance")
  expect_error(dp_het_test(made_fit()), class = "dpstats_not_released")
  expect_error(dp_het_test(1), class = "dpstats_parameter_error")
})

test_that("a guarantee that protects little says so", {
  guarantee <- list(eps = 1e6, delta = 0.5, kind = "approximate", neighbours = "add-remove", seeded = FALSE)
  note <- "NOTE: eps = 1e+06 and delta = 0.5: that protects little."
  expect_match(promise(guarantee), note, fixed = TRUE, all = FALSE)
  expect_length(promise(utils::modifyList(guarantee, list(eps = 1, delta = 1e-6))), 1)
})

test_that("a list's way to what was not released is refused, too", {
  skip_without_python()
  d <- data.frame(x = sin(1:3000), z = cos(1:3000))
  d$y <- d$x + d$z
  fit <- dp_ols(y ~ x + z, d, eps = 5, seed = 1)
  expect_error(fit$residuals, "was not released", class = "dpstats_not_released")
  expect_error(fit$fitted.values, "was not released", class = "dpstats_not_released")
  expect_error(fit$resid, "was not released", class = "dpstats_not_released")
  expect_error(fit$fitted, "was not released", class = "dpstats_not_released")
  expect_null(fit$nothing)
  expect_identical(fit$guar, fit$guarantee)
  expect_error(anova(fit, test = "F"), "test must be NULL or \"Chisq\"", class = "dpstats_parameter_error")
  expect_identical(anova(fit, test = "Chisq"), anova(fit))
  counts <- dp_glm(round(exp(x)) ~ x, d, poisson(), eps = 8, seed = 1)
  expect_identical(summary(counts)$dispersion, counts$released$dispersion)
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  f <- dp_ols(y ~ g + x, transform(d, g = factor(rep(c("a", "b", "c"), 1000))), eps = 5, seed = 1)
  expect_no_error(plot(f, terms = "g"))
  expect_error(plot(f, terms = "h"), "terms must be among", class = "dpstats_parameter_error")
})
