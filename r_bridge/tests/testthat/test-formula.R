data <- data.frame(
  y = 1, y2 = 2, x = 1, z = 2, k = 1L, flag = TRUE, text = "u", f = factor("a", levels = c("a", "b")),
  o = factor("l", levels = c("l", "h"), ordered = TRUE), d = as.Date("2020-01-01"), lambda = 1
)
data[["two words"]] <- 3
data[["Sepal.Length"]] <- 3

python <- function(formula, ...) translate_formula(formula, data, ...)$python
labels <- function(formula, ...) vapply(translate_formula(formula, data, ...)$factors, function(f) f$label, "")

test_that("terms are expanded as in lm()", {
  expect_equal(python(y ~ x + f), "y ~ x + f")
  expect_equal(python(y ~ x * z), "y ~ x + z + x:z")
  expect_equal(python(y ~ (x + z + k)^2), "y ~ x + z + k + x:z + x:k + z:k")
  expect_equal(python(y ~ x / z), "y ~ x + x:z")
  expect_equal(python(y ~ x * z - z), "y ~ x + x:z")
  expect_equal(python(y ~ x:z), "y ~ x:z")
  expect_equal(python(y ~ x - 1), "y ~ 0 + x")
  expect_equal(python(y ~ x + 0), "y ~ 0 + x")
  expect_equal(python(y ~ 0 + x), "y ~ 0 + x")
  expect_equal(python(y ~ 1), "y ~ 1")
  expect_equal(python("y ~ x"), "y ~ x")
})

test_that("responses", {
  expect_equal(python(log(y) ~ 1), "np.log(y) ~ 1")
  expect_equal(python(cbind(y, y2) ~ 1), "y + y2 ~ 1")
  expect_equal(python(cbind(a = y, log(y2)) ~ 1), "y + np.log(y2) ~ 1")
  expect_equal(translate_formula(cbind(a = y, log(y2)) ~ 1, data)$responses, c("a", "log(y2)"))
  expect_equal(python(y + y2 ~ x), "I(y + y2) ~ x")
  expect_equal(python(flag ~ x), "flag ~ x")
})

test_that("functions of a row", {
  expect_equal(python(y ~ I(x^2)), "y ~ I(x ** 2)")
  expect_equal(python(y ~ log(x)), "y ~ np.log(x)")
  expect_equal(python(y ~ log(x, 10) + log(z, base = 2)), "y ~ np.log10(x) + np.log2(z)")
  expect_equal(python(y ~ log(x, 3)), "y ~ I(np.log(x) / np.log(3))")
  expect_equal(python(y ~ log(base = 3, x)), "y ~ I(np.log(x) / np.log(3))")
  expect_equal(python(y ~ sqrt(abs(x - 2 * z))), "y ~ np.sqrt(np.abs(x - (2 * z)))")
  expect_equal(python(y ~ I(-x)), "y ~ I(-x)")
  expect_equal(python(y ~ I((x + z) * 2)), "y ~ I((x + z) * 2)")
  expect_equal(python(y ~ I(x %% 2 + x %/% 3)), "y ~ I((x % 2) + (x // 3))")
  expect_equal(python(y ~ I(x > 3 & z <= 2 | !flag)), "y ~ I(((x > 3) & (z <= 2)) | (~flag))")
  expect_equal(python(y ~ I(x > 3)), "y ~ I(x > 3)")
  expect_equal(python(y ~ pmin(x, z, 3) + pmax(x, 0)), "y ~ np.minimum(np.minimum(x, z), 3) + np.maximum(x, 0)")
  expect_equal(python(y ~ ifelse(x > 3, z, 0)), "y ~ np.where(x > 3, z, 0)")
  expect_equal(python(y ~ ceiling(x) + trunc(z) + round(k)), "y ~ np.ceil(x) + np.trunc(z) + np.rint(k)")
  expect_equal(python(y ~ asin(x) + acos(z) + atan(k)), "y ~ np.arcsin(x) + np.arccos(z) + np.arctan(k)")
  expect_equal(python(y ~ as.numeric(flag)), "y ~ I(1 * flag)")
  expect_equal(python(y ~ sin(2 * pi * x)), "y ~ np.sin((2 * np.pi) * x)")
  expect_equal(python(y ~ I(0.1 * x + 1e-300)), "y ~ I((0.1 * x) + 1e-300)")
})

test_that("names that are no Python names are quoted", {
  expect_equal(python(y ~ `two words`), "y ~ Q(\"two words\")")
  expect_equal(python(y ~ Sepal.Length), "y ~ Q(\"Sepal.Length\")")
  expect_equal(python(y ~ lambda + I(lambda^2)), "y ~ Q(\"lambda\") + I(Q(\"lambda\") ** 2)")
  expect_equal(python_name("say \"x\" \\ y"), "Q(\"say \\\"x\\\" \\\\ y\")")
  expect_equal(labels(y ~ `two words` + log(x)), c("`two words`", "log(x)"))
})

test_that("the dot is every other column", {
  small <- data[c("y", "x", "two words")]
  expect_equal(translate_formula(y ~ ., small)$python, "y ~ x + Q(\"two words\")")
  expect_equal(translate_formula(log(y) ~ . - x, small)$python, "np.log(y) ~ Q(\"two words\")")
  expect_equal(deparse1(translate_formula(y ~ ., small)$formula), "y ~ x + `two words`")
  # what is taken off need not be readable
  with_text <- data[c("y", "x", "two words", "text")]
  expect_equal(translate_formula(y ~ . - text, with_text)$python, "y ~ x + Q(\"two words\")")
  expect_equal(translate_formula(y ~ . - text - x - 1, with_text)$python, "y ~ 0 + Q(\"two words\")")
  expect_equal(translate_formula(y ~ x + . - x, small)$python, "y ~ Q(\"two words\")")
  expect_equal(translate_formula(y ~ . - (text + x), with_text)$python, "y ~ Q(\"two words\")")
  expect_equal(translate_formula(y ~ . - x - `two words`, small)$python, "y ~ 1")
  expect_error(translate_formula(y ~ . - nothing, small), "there is no column 'nothing'")
  expect_error(translate_formula(y ~ text + . - x, with_text), "column 'text' holds text")
  # a name takes off its own term alone
  numbers <- data.frame(y = 1:9, x = c(1, 3, 2), z = c(2, 2, 5), w = c(9, 1, 4))
  for (f in list(y ~ .^2 - x, y ~ z * . - x, y ~ .:z - x, y ~ ./z - x, y ~ . - x - z - w, y ~ x + . - x)) {
    wanted <- attr(stats::terms(f, data = numbers), "term.labels")
    expect_equal(attr(stats::terms(translate_formula(f, numbers)$formula), "term.labels"), wanted)
    right <- sub("^y ~ ", "", translate_formula(f, numbers)$python)
    expect_setequal(strsplit(right, " + ", fixed = TRUE)[[1]], if (length(wanted)) wanted else "1")
  }
})

test_that("categorical variables", {
  expect_equal(python(y ~ f + o + flag), "y ~ f + o + flag")
  expect_equal(python(y ~ factor(k, levels = c(1, 2))), "y ~ C(k, levels=[1, 2])")
  expect_equal(python(y ~ factor(k, levels = 1:3)), "y ~ C(k, levels=[1, 2, 3])")
  expect_equal(python(y ~ factor(k, c(-1, 0.5))), "y ~ C(k, levels=[-1, 0.5])")
  expect_equal(python(y ~ factor(text, levels = c("u", "v"))), "y ~ C(text, levels=[\"u\", \"v\"])")
  expect_equal(python(y ~ text, levels = list(text = c("u", "v"))), "y ~ text")
  expect_equal(python(y ~ relevel(f, ref = "b")), "y ~ C(f, Treatment(\"b\"))")
  expect_equal(python(y ~ C(f, contr.sum)), "y ~ C(f, Sum)")
  expect_equal(python(y ~ stats::C(f, contr.sum)), "y ~ C(f, Sum)")
  expect_equal(python(y ~ C(o, contr.poly)), "y ~ C(o, Poly)")
  expect_equal(python(y ~ factor(floor(x), levels = 0:1)), "y ~ C(np.floor(x), levels=[0, 1])")
  expect_equal(python(y ~ factor(f)), "y ~ C(f)")
})

test_that("numbers are cut at breaks that are written out, as by R", {
  expect_equal(python(y ~ cut(x, c(0, 18, 65))), "y ~ cut(x, [0, 18, 65], labels=[\"(0,18]\", \"(18,65]\"])")
  expect_equal(
    python(y ~ cut(log(x), c(2, -Inf, Inf), right = FALSE)),
    "y ~ cut(np.log(x), [-np.inf, 2, np.inf], right=False, labels=[\"[-Inf,2)\", \"[2, Inf)\"])"
  )
  expect_equal(
    python(y ~ cut(x, seq(0, 2, by = 1), include.lowest = T)),
    "y ~ cut(x, [0, 1, 2], labels=[\"[0,1]\", \"(1,2]\"], include_lowest=True)"
  )
  expect_equal(
    python(y ~ relevel(cut(x, 0:2, labels = c("a", "b")), "b")),
    "y ~ C(cut(x, [0, 1, 2], labels=[\"a\", \"b\"]), Treatment(\"b\"))"
  )
  expect_equal(python(y ~ C(cut(x, 0:2), contr.sum)), "y ~ C(cut(x, [0, 1, 2], labels=[\"(0,1]\", \"(1,2]\"]), Sum)")
})

test_that("splines with knots that are written out", {
  expect_equal(
    python(y ~ bs(x, knots = c(2, 4), Boundary.knots = c(0, 9))),
    "y ~ bs(x, knots=[2, 4], lower_bound=0, upper_bound=9)"
  )
  expect_equal(
    python(y ~ splines::bs(log(x), knots = 2, degree = 2, intercept = TRUE)),
    "y ~ bs(np.log(x), knots=[2], degree=2, include_intercept=True)"
  )
})

test_that("what would learn from the data, or is not understood, is refused with the reason", {
  refused <- list(
    y ~ poly(x, 2), y ~ scale(x), y ~ ns(x, df = 3), y ~ bs(x, df = 4), y ~ bs(x), y ~ I(x - mean(x)), y ~ cut(x, 3),
    y ~ max(x, z), y ~ is.na(x), y ~ f %in% "a", y ~ I(f == "a"), y ~ log(f), y ~ text, y ~ factor(text), y ~ factor(k),
    y ~ d, y ~ xx, y ~ nothing_like_it, y ~ offset(x), y ~ data$x, y ~ I(x > 1 && z > 1), y ~ log(x, "e"), y ~ log(),
    y ~ I(x + T), y ~ I(x * NA), y ~ I(x + 1:3), y ~ C(f, contr.treatment(2)), y ~ C(f, my_contrast), y ~ -1, y ~ 0,
    y ~ x + y, ~x, cbind(y, text) ~ 1, f ~ x, y ~ (function(v) v)(x), y ~ ifelse(x > 1, 2), y ~ pmin(x),
    y ~ cut(x, c(1, 2)), y ~ cut(x, 0:2, labels = FALSE), y ~ I(cut(x, 0:2)), y ~ cut(x, c(0, NA, 1)), y ~ cut(f, 0:2),
    y ~ cut(x, 0:2, ordered_result = TRUE), y ~ factor(cut(x, 0:2), levels = "a"), y ~ cut(x, 0:2, right = z),
    y ~ factor(floor(x)), y ~ x + 3, y ~ factor(x, labels = "a"), y ~ bs(x, knots = 1, Boundary.knots = 3)
  )
  reason <- function(formula) {
    why <- tryCatch(translate_formula(formula, data)$python, dpstats_error = function(e) {
      paste0("<", class(e)[1], "> ", conditionMessage(e))
    })
    cat(deparse1(formula), strwrap(why, 100, prefix = "    "), sep = "\n")
  }
  expect_snapshot(for (formula in refused) reason(formula))
  expect_snapshot(translate_formula(5, data), error = TRUE)
  expect_snapshot(translate_formula(y ~ ., data["y"]), error = TRUE)
})

test_that("text is not compared, and what to write is said", {
  said <- function(formula, levels = NULL, data = data_here) {
    conditionMessage(expect_error(translate_formula(formula, data, levels), class = "dpstats_error"))
  }
  data_here <- data
  data_here[["two words"]] <- data$text
  asks <- "text is not compared: write text as a term, with levels = list(text = c(...)) in the call, or make the comparison a column"
  for (formula in list(y ~ I(text == "a"), y ~ I("a" == text), y ~ ifelse(text != ("a"), 1, 0), I(text == "a") ~ x)) {
    expect_match(said(formula), asks, fixed = TRUE, info = deparse1(formula))
  }
  expect_match(said(y ~ I(text == "a"), data = "a file"), asks, fixed = TRUE)
  expect_match(said(y ~ I(`two words` == "a")), "write `two words` as a term, with levels = list(`two words` = ", fixed = TRUE)
  known <- "text is not compared: write text as a term, or make the comparison a column of its own before the call"
  expect_match(said(y ~ I(text == "a"), list(text = c("a", "b"))), known, fixed = TRUE)
  expect_match(said(y ~ I(f %in% c("a", "b"))), "text is not compared: write f as a term, or", fixed = TRUE)
  # of a number no levels are asked for
  expect_match(said(y ~ I(x == "a")), "a constant must be a finite number", fixed = TRUE)
  expect_match(said(y ~ I(f > x)), "column 'f' is categorical, and this needs numbers", fixed = TRUE)
})

test_that("nothing is evaluated, and no environment is kept", {
  secret <- c(1, 2, 3)
  formula <- y ~ I(x^2)
  kept <- translate_formula(formula, data)
  expect_identical(environment(kept$formula), globalenv())
  expect_error(translate_formula(y ~ secret, data), class = "dpstats_schema_error")
  expect_error(translate_formula(y ~ log(stop("evaluated")), data), "not in the grammar", class = "dpstats_formula_error")
})

test_that("raw powers are those of lm()", {
  skip_without_python()
  d <- with_response(some_rows(1500))
  formulas <- list(
    y ~ poly(x, 2, raw = TRUE), y ~ poly(x, 2, raw = TRUE) * g, y ~ g:poly(x, 2, raw = TRUE), y ~ poly(x, 1, raw = TRUE) + z,
    y ~ poly(x, 3, raw = TRUE) + poly(z, degree = 2, raw = TRUE), y ~ poly(x, 2, raw = TRUE):poly(z, 2, raw = TRUE),
    y ~ poly(log(z), 2, raw = TRUE) + f - 1
  )
  d$g <- droplevels(d$g)
  for (formula in formulas) {
    classical <- stats::lm(formula, d)
    fit <- dp_ols(formula, d, eps = 50, delta = 1e-3, seed = 1)
    expect_identical(names(coef(fit)), names(coef(classical)), info = deparse1(formula))
    ours <- fit$design
    ours$low <- ours$high <- NULL
    expect_equal(design_matrix(ours, d[1:9, ]), model.matrix(classical)[1:9, ], ignore_attr = TRUE, info = deparse1(formula))
  }
  fit <- dp_ols(y ~ poly(x, 2, raw = TRUE) + z, d, eps = 50, seed = 1)
  expect_identical(unname(coef(fit)), unname(coef(dp_ols(y ~ x + I(x^2) + z, d, eps = 50, seed = 1))))
  expect_identical(rownames(as.data.frame(anova(fit))), c("poly(x, 2, raw = TRUE)", "z"))
  expect_identical(formula(fit), y ~ poly(x, 2, raw = TRUE) + z, ignore_formula_env = TRUE)
  expect_snapshot(error = TRUE, {
    dp_ols(y ~ poly(x, 2), d, eps = 1)
    dp_ols(y ~ poly(x, z, degree = 2, raw = TRUE), d, eps = 1)
    dp_ols(y ~ poly(x, 0, raw = TRUE), d, eps = 1)
    dp_ols(y ~ poly(x, 2, raw = TRUE) + z, d, eps = 1, select = 1)
    dp_select_features(y ~ poly(x, 2, raw = TRUE) + z, d, k = 1, eps = 1)
    dp_ols(y ~ I(x > as.Date("2020-01-01")), d, eps = 1)
  })
})

test_that("columns may be named as one likes", {
  skip_without_python()
  d <- with_response(some_rows(1500))
  names <- c(
    "inf", "nan", "Inf", "NaN", "NA.", "NA", "TRUE", "T", "None", "True", "Intercept", "(Intercept)", "two words", "np", "C", "Q",
    "I", "bs", "log", "pi", "e", "1", "a:b", "a+b", "x'y", "`x", "lambda", ".x", "if"
  )
  for (name in names) {
    e <- stats::setNames(d[c("y", "x", "z")], c("y", name, "z"))
    fit <- dp_ols(y ~ ., e, eps = 3, seed = 1)
    expect_identical(names(coef(fit)), names(coef(stats::lm(y ~ ., e))))
    shown <- if (make.names(name) == name) name else deparse1(as.name(name), backtick = TRUE)
    expect_match(fit$notes, paste0("at ", shown, " ["), fixed = TRUE, all = FALSE)
    expect_false(anyNA(predict(fit, e[1:2, ])))
    logged <- stats::as.formula(call("~", quote(y), call("exp", as.name(name))))
    expect_identical(names(coef(dp_ols(logged, e, eps = 3, seed = 1))), names(coef(stats::lm(logged, e))))
  }
})
