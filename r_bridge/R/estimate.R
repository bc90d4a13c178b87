# One path for every estimator: translate the formula, send the columns that it names, copy what comes back.

run <- function(name, formula, data, options, ledger, levels = NULL, bounds = NULL, by = NULL, unit = NULL, glm = NULL,
                weights = NULL) {
  # the estimator that called: no argument of it is unknown, and its call is kept
  eval(quote(no_more(...)), parent.frame())
  estimator <- sys.function(-1)
  call <- match.call(estimator, sys.call(-1), envir = parent.frame(2))
  request <- prepare(formula, data, levels, bounds, by, unit, glm, weights)
  if (!is.null(options$select)) no_powers(request$meaning)
  call <- stored_call(call, paste0("dp_", name), request$meaning$formula, parent.frame(2))
  options <- c(options, list(bounds = request$bounds, by = request$by, unit = request$unit))
  options$offset <- request$meaning$offset$code
  options$weights <- request$meaning$weights
  answer <- ask(name, request, options, ledger)
  class <- c(paste0("dp_", name), if (!is.null(glm)) "dpstats_glm")
  if (is.null(by)) return(as_fit(answer, request, class, call = call))
  as_groups(answer, request, class, call)
}

# What is sent, and what is kept to name and to predict.
prepare <- function(formula, data, levels, bounds, by, unit = NULL, glm = NULL, weights = NULL) {
  data <- check_data(data)
  levels <- check_declared(levels, "levels", "list(cut = c(\"Fair\", \"Good\"))", data)
  bounds <- check_declared(bounds, "bounds", "list(age = c(0, 120))", data)
  by <- check_column(by, "by")
  unit <- check_column(unit, "unit")
  meaning <- translate_formula(formula, data, levels, glm, c(by, unit), weights)
  if (!is.null(by)) check_groups(by, data, levels)
  if (is_path(data)) {
    columns <- data
  } else {
    # only the columns that are read cross the border
    bounds <- bounds[names(bounds) %in% c(meaning$reads, by)]
    columns <- lapply(stats::setNames(nm = union(meaning$reads, by)), function(name) {
      x <- column_of(data, name)
      cross_column(x, column_levels(x, name, levels, meaning$levels))
    })
    columns <- with_unit(columns, data, unit)
  }
  list(
    meaning = meaning,
    columns = columns,
    bounds = if (length(bounds)) lapply(bounds, as.list),
    # levels travel with the columns, but for those of a file
    levels = if (is_path(data) && !is.null(levels)) lapply(levels, as.list),
    about = about_columns(data, meaning$reads),
    by = by,
    unit = unit,
    by_is_factor = !is.null(by) && (is_path(data) || is.factor(data[[by]]))
  )
}

column_levels <- function(x, name, declared, written) {
  kind <- kind_of(x, name)
  if (!is.null(declared[[name]])) {
    if (is.character(declared[[name]])) enc2utf8(declared[[name]]) else declared[[name]]
  } else if (kind == "factor") {
    levels_of(x)
  } else if (kind == "text") {
    if (is.null(written[[name]])) undeclared(name)
    enc2utf8(written[[name]])
  }
}

check_column <- function(name, what) {
  name <- tryCatch(name, error = function(e) NA)
  if (inherits(name, "formula") && length(name) == 2 && is.name(name[[2]])) name <- as.character(name[[2]])
  if (!is.null(name) && !(is.character(name) && length(name) == 1 && !is.na(name))) {
    several <- if (what == "by" && is.character(name)) "; groups by several factors are those of one column that interaction() makes"
    fail("parameter_error", what, " must be NULL or the name of a column, in quotes", several, ".")
  }
  name
}

# The columns that are sent, and that of the units. One that is read besides must cross as it is.
with_unit <- function(columns, data, unit) {
  if (is.null(unit)) return(columns)
  x <- column_of(data, unit)
  if (is.null(columns[[unit]])) {
    columns[[unit]] <- cross_unit(x, unit)
  } else if (inherits(x, c("integer64", "POSIXct", "difftime"))) {
    fail("schema_error", "column '", unit, "' of class ", oldClass(x)[1], " is the unit, and is read as a number, which may take ",
         "different units for one; make a copy of it for the one or the other.")
  }
  columns
}

# Units need no levels: they cross as numbers of the values, in the order in which these appear. No value is rounded:
# units that are taken for one would have no more than the protection of one.
cross_unit <- function(x, name) {
  kind <- kind_of(x, name)
  if (inherits(x, "difftime")) {
    fail("schema_error", "column '", name, "' holds durations, whose units R may choose by their values; units are numbers, texts, ",
         "factors, dates or times.")
  }
  keys <- if (inherits(x, "integer64")) whole_keys(x) else if (kind == "number") exact_numbers(x) else
    if (kind == "truth") as.double(x) else if (kind == "factor") texts_of(x) else valid_text(x)
  missing <- is.na(keys) | keys %in% ""
  keys[missing] <- NA
  cross_column(as.double(match(keys, unique(keys[!missing]))), NULL)
}

# Numbers as they are, NA where missing: times in their own unit.
exact_numbers <- function(x) replace(as.double(unclass(x)), declared_missing(x), NA)

# 64-bit integers as texts of all their bits.
whole_keys <- function(x) {
  halves <- halves_of(x)
  keys <- paste(format(halves$high, scientific = FALSE, trim = TRUE), format(halves$low, scientific = FALSE, trim = TRUE))
  replace(keys, halves$missing, NA)
}

check_groups <- function(by, data, levels) {
  if (is_path(data)) return(invisible())
  if (is_time(column_of(data, by))) {
    fail("schema_error", "column '", by, "' holds times; the groups are the levels of a factor, which are taken as public.")
  }
  if (by %in% names(levels)) return(invisible())
  if (kind_of(column_of(data, by), by) %in% c("number", "text")) {
    fail("schema_error", "the groups by '", by, "' must be declared: with levels = list(", by, " = c(...)), or as a ",
         "factor, whose levels are taken as public.")
  }
}

ask <- function(name, request, options, ledger) {
  options <- c(options, list(levels = request$levels))
  # the one argument by response: Python knows responses by their code
  known <- match(names(options$scale), request$meaning$responses)
  if (length(known) && !anyNA(known)) names(options$scale) <- request$meaning$response_codes[known]
  declared <- options[names(options) %in% c("bounds", "levels")]
  options <- for_python(options[!names(options) %in% c("bounds", "levels")])
  meaning <- request$meaning
  answer <- bridge()$estimate(
    name, meaning$python, request$columns, c(options, declared), as_ledger(ledger),
    lapply(meaning$factors, function(f) f$code),
    lapply(meaning$terms, function(term) as.list(term - 1L))
  )
  unwrap(answer, request)
}

# -- results -----------------------------------------------------------------------------------------------------

# A result as a plain list: numbers, strings, the formula (without an environment of its own), and nothing else.
as_fit <- function(answer, request, class, design = NULL, call = NULL) {
  meaning <- request$meaning
  if (is.null(design) && !is.null(answer$columns)) design <- as_design(answer$columns, meaning, request$bounds)
  d <- length(answer$names)
  if (is.null(design)) {
    order <- seq_len(d)
    names <- if (d == length(meaning$responses)) meaning$responses else as.character(answer$names)
  } else {
    order <- design$order
    names <- design$names
    design$low <- as_numbers(answer$low)[order]
    design$high <- as_numbers(answer$high)[order]
  }
  in_words <- function(text) in_r_names(text, as.character(answer$names)[order], names, meaning)
  formula <- chosen_formula(meaning, design)
  cov <- if (!is.null(answer$cov)) matrix(as_numbers(answer$cov), d, d)[order, order, drop = FALSE]
  if (!is.null(cov)) dimnames(cov) <- list(names, names)
  fit <- list(
    method = answer$method,
    call = call,
    formula = formula,
    terms = terms_of(formula),
    response = if (!is.null(design)) meaning$response_text,
    coefficients = stats::setNames(as_numbers(answer$estimates)[order], names),
    vcov = cov,
    root = as_root(answer$root, d, order),
    free = as_root(answer$free, d, order),
    covers = in_r_words(answer$covers),
    cov_type = answer$cov_type,
    het = answer$het,
    df = answer$df,
    alpha = answer$alpha,
    interval = as_interval(answer$interval, order),
    limited = as_limited(answer$limited, order),
    released = lapply(answer$released, as.double),
    notes = c(in_words(as.character(answer$notes)), request$about),
    guarantee = as_guarantee(answer$guarantee, in_words),
    # without the effects of units there is nothing to predict from
    design = if (!isTRUE(answer$within)) design,
    term_of = if (!is.null(design)) meaning$term_labels[replace(design$assign, design$assign == 0, NA)],
    # what Python goes on from, and its names of the coefficients
    saved = list(text = answer$saved, names = as.character(answer$names)[order])
  )
  if (!is.null(answer$link)) {
    fit <- c(fit, list(link = answer$link, slopes = as_slopes(answer$slopes, order), offset = meaning$offset$expr))
  }
  structure(fit, class = c(class, "dpstats"))
}

as_numbers <- function(values) if (!is.null(values)) as.double(unlist(values))

# A table that crossed as lists by column; what is missing in one is NaN or nothing.
as_frame <- function(columns) {
  filled <- lapply(columns, function(values) {
    values <- unlist(lapply(values, function(value) if (is.null(value)) NA else value))
    if (is.double(values)) values[is.nan(values)] <- NA
    values
  })
  data.frame(filled, check.names = FALSE, stringsAsFactors = FALSE)
}

# Ends of the interval that values are limited to, by coefficient, and as a text; NULL if none are.
as_limited <- function(limited, order) {
  if (!length(limited)) return(NULL)
  ends <- data.frame(low = rep(NA_real_, length(order)), high = NA_real_, text = NA_character_)
  for (one in limited) ends[one[[1]] + 1, ] <- list(one[[2]], one[[3]], one[[4]])
  ends[order, ]
}

as_interval <- function(interval, order) {
  if (is.null(interval)) return(NULL)
  numbers <- setdiff(names(interval), "kind")
  interval[numbers] <- lapply(interval[numbers], as_numbers)
  by_coefficient <- intersect(numbers, c("lower", "upper", "scales"))
  interval[by_coefficient] <- lapply(interval[by_coefficient], function(v) v[order])
  interval
}

as_slopes <- function(slopes, order) {
  if (is.null(slopes)) return(NULL)
  list(mean = slopes$mean, gradient = as_numbers(slopes$gradient)[order], noise = slopes$noise)
}

as_guarantee <- function(guarantee, in_words = in_r_words) {
  if (is.null(guarantee)) return(NULL)
  spends <- guarantee$spends
  column <- function(name, empty) {
    vapply(spends, function(s) if (is.null(s[[name]])) empty else as.vector(s[[name]], typeof(empty)), empty)
  }
  guarantee$spends <- data.frame(
    step = in_words(column("step", "")), mechanism = column("mechanism", ""), eps = column("eps", NA_real_),
    delta = column("delta", NA_real_), mu = column("mu", NA_real_), rho = column("rho", NA_real_)
  )
  guarantee$spends$share <- division(guarantee)$share
  structure(guarantee, class = "dpstats_guarantee")
}

# The formula of the model: that of the call, or of the terms that select= chose.
chosen_formula <- function(meaning, design) {
  if (is.null(design) || setequal(design$terms, seq_along(meaning$term_labels))) return(meaning$formula)
  formula_of_terms(meaning, sort(design$terms))
}

formula_of_terms <- function(meaning, terms) {
  right <- lapply(meaning$term_labels[terms], str2lang)
  right <- if (length(right)) Reduce(function(a, b) call("+", a, b), right) else 1
  if (!meaning$intercept) right <- call("-", right, 1)
  formula <- meaning$formula
  formula[[3]] <- right
  environment(formula) <- globalenv()
  formula
}

# Sentences that name columns and terms as Python does, with R's names, which are put in when all other words are R's.
in_r_names <- function(text, python, r, meaning) {
  python <- c(python, meaning$python, codes_of(meaning), meaning$reads)
  r <- c(r, deparse1(meaning$formula), labels_of(meaning), meaning$reads)
  with_names(text, python, r)
}

with_names <- function(text, python, r) {
  differ <- !duplicated(python) & (python != r | in_r_words(python) != r) & grepl("[^0-9.]", python)
  python <- python[differ]
  r <- r[differ]
  # characters that no text has
  marks <- vapply(seq_along(python), function(i) intToUtf8(0xF0000 + i), "")
  for (i in order(-nchar(python))) {
    text <- gsub(paste0("(?<![\\w.])\\Q", python[i], "\\E(?![\\w(])"), marks[i], enc2utf8(text), perl = TRUE)
  }
  text <- in_r_words(text)
  for (i in seq_along(marks)) text <- gsub(marks[i], r[i], text, fixed = TRUE)
  text
}

# Factors and responses as Python writes them, and as R does.
codes_of <- function(meaning) c(vapply(meaning$factors, function(f) f$code, ""), unname(meaning$response_codes), python_names(meaning))
labels_of <- function(meaning) c(vapply(meaning$factors, function(f) f$label, ""), meaning$responses, meaning$reads)
python_names <- function(meaning) vapply(meaning$reads, python_name, "", USE.NAMES = FALSE)
