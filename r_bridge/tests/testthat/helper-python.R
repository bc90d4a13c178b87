# Tests that need Python are skipped without it, unless DPSTATS_REQUIRE_PYTHON=1.
skip_without_python <- function() {
  if (Sys.getenv("DPSTATS_REQUIRE_PYTHON") != "1") {
    testthat::skip_if_not(dp_available(), "the Python package dpstats is not available")
  }
}

# The Python package called by itself, on data frames that are built in Python from lists and masks: nothing here goes
# through the bridge.
python_reference <- function(name, formula, data, ..., factors = character()) {
  reticulate::py_run_string("
import dpstats, pandas as pd, numpy as np

def as_frame(columns):
    frame = {}
    for name, c in columns.items():
        values = [None if m else v for v, m in zip(c['values'], c['missing'])]
        if c['kind'] == 'factor':
            frame[name] = pd.Categorical(values, categories=c['levels'])
        elif c['kind'] == 'logical':
            frame[name] = pd.array(values, dtype='boolean')
        else:
            frame[name] = np.array([np.nan if v is None else v for v in values], dtype=float)
    return pd.DataFrame(frame)

def as_floats(x):
    return np.asarray(x, float).ravel().tolist()

def reference(name, formula, columns, new, options):
    for key in ('at', ):
        if key in options:
            options[key] = tuple(options[key])
    fit = getattr(dpstats, name)(formula, as_frame(columns), **options)
    if name == 'select_features':
        return {'terms': list(fit.terms), 'rounds': list(fit.rounds), 'eps': fit.guarantee.eps}
    if 'by' in options:
        t = fit.tidy()
        return {key: as_floats(t[key]) for key in ('estimate', 'std.error', 'conf.low', 'conf.high')}
    found = {
        'names': list(fit.names), 'estimate': as_floats(fit.tidy()['estimate']), 'std.error': as_floats(fit.bse),
        'statistic': as_floats(fit.tvalues), 'p.value': as_floats(fit.pvalues), 'ends': as_floats(fit.conf_int()),
        'cov': as_floats(fit.cov_params()), 'eps': fit.guarantee.eps, 'spends': as_floats([s.eps for s in fit.guarantee.spends]),
        'predict': as_floats(fit.predict(as_frame(new))) if fit.design is not None and new else None,
        'method': fit.method,
    }
    if type(fit.interval).__name__ in ('NoiseInterval', 'LineInterval'):
        found['ends80'] = as_floats(fit.conf_int(alpha=0.2))
    return found
")
  reticulate::py$reference(name, formula, lists_of(data), lists_of(list(...)$new), python_options(list(...)))
}

python_options <- function(options) {
  options$new <- NULL
  lapply(options, function(v) if (is.list(v) && any(lengths(v) > 1)) lapply(v, as.list) else v)
}

lists_of <- function(data) {
  if (is.null(data)) return(NULL)
  lapply(as.list(data), function(x) {
    kind <- if (is.factor(x)) "factor" else if (is.logical(x)) "logical" else "number"
    values <- if (is.factor(x)) as.character(x) else x
    values[is.na(x)] <- if (is.character(values)) "" else 0
    list(kind = kind, values = as.list(values), missing = as.list(is.na(x)), levels = as.list(levels(x)))
  })
}

# Rows for tests: skewed x, a group, a flag, and errors with a little structure.
some_rows <- function(n = 3000) {
  i <- seq_len(n)
  data.frame(
    x = sin(i) * 3 + (i %% 7) / 2,
    z = cos(1.7 * i) + 2,
    g = factor(c("a", "b", "c")[1 + (i * 7) %% 3], levels = c("a", "b", "c", "never")),
    o = factor(c("low", "high")[1 + (i %% 5 > 2)], levels = c("low", "high"), ordered = TRUE),
    f = i %% 4 == 0,
    k = as.integer(i %% 10)
  )
}

with_response <- function(data) {
  i <- seq_len(nrow(data))
  data$y <- 10 + 2 * data$x - data$z + 3 * (data$g %in% "b") + sin(i * i) * 2 + ifelse(data$f, 1, 0)
  data
}

# A fit put together by hand, for what is printed.
made_fit <- function(covers = "sampling and privacy noise", cov = diag(c(4, 0.25, 1e-4)), names = c("(Intercept)", "x", "gb"),
                     ...) {
  if (!is.null(cov)) dimnames(cov) <- list(names, names)
  guarantee <- structure(list(
    eps = 1, delta = 1e-6, neighbours = "add-remove", kind = "approximate",
    spends = data.frame(
      step = c("number of rows", "gradients", "gradients"), mechanism = "Gaussian noise", eps = c(0.2, 0.7, 0.7),
      delta = 1e-6, mu = c(0.05, 0.1, 0.1), rho = NA_real_
    ),
    gamma = NULL, seeded = FALSE, scope = NULL
  ), class = "dpstats_guarantee")
  fit <- list(
    method = "Private OLS", formula = y ~ x + g, response = "y",
    coefficients = stats::setNames(c(-12.5, 3.25, 0.05), names), vcov = cov, covers = covers, df = NULL, alpha = 0.05,
    interval = NULL, released = list(n = 53928.4, sigma = 1511.2, rsquared = 0.8565),
    notes = "Errors are taken as homoskedastic.", guarantee = guarantee, design = NULL
  )
  structure(utils::modifyList(fit, list(...)), class = c("dp_ols", "dpstats"))
}

# Groups put together by hand; the release of "b" failed.
made_groups <- function(results = list(a = made_fit(), c = made_fit()), failed = c(b = "Too few rows.")) {
  levels <- factor(c("a", "b", "c"), c("a", "b", "c"))
  new_groups("Private OLS", y ~ x, "g", levels, results, failed, made_fit()$guarantee, class = "dp_ols")
}

# Where R's columns are among Python's, by their names without decoration.
match_columns <- function(r, python) {
  bare <- function(names) {
    names <- sub("^Intercept$", "(Intercept)", names)
    names <- gsub("[T.", "", gsub("]", "", names, fixed = TRUE), fixed = TRUE)
    gsub("True", "TRUE", gsub("np.", "", names, fixed = TRUE), fixed = TRUE)
  }
  match(r, bare(python))
}
