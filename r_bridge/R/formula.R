# R's formula to the grammar of the Python package (docs/formulas.md there), by walking its syntax tree.
# terms() does the algebra of +, *, :, ^, / and -, so only variables have to be translated. Nothing is evaluated.

# What a formula means: its factors (the variables of the right-hand side), terms and responses.
#
# Each factor has the Python `code`, the `label` that R users know it by, and for prediction the R `expr` of its
# argument. `reads` names the columns that are read; `levels` are those of text columns that the formula writes out.
# `glm` is NULL or says what a generalised linear model may have beside (R/glm.R); `weights` are those of read_weights().
translate_formula <- function(formula, data, levels = NULL, glm = NULL, aside = NULL, weights = NULL) {
  formula <- checked_formula(formula)
  state <- new.env(parent = emptyenv())
  state$data <- data
  state$declared <- levels
  state$reads <- character()
  state$levels <- list()
  of_rows <- if (is.language(weights)) numeric_code(weights, state)
  # (by themselves these are no columns)
  if (!is.null(of_rows) && of_rows %in% c("row", "unit")) of_rows <- paste0("Q(\"", of_rows, "\")")
  layout <- formula_terms(formula, data, c(aside, if (is.language(weights)) all.vars(weights)))
  variables <- as.list(attr(layout, "variables"))[-1]
  answers <- responses_in(variables[[1]])
  offset <- offset_in(variables[attr(layout, "offset")], state, glm)
  responses <- if (is.null(glm)) {
    lapply(answers, translate_response, state)
  } else {
    list(glm_response(answers, state, glm))
  }
  used <- attr(layout, "factors")
  kept <- setdiff(seq_along(variables), attr(layout, "offset"))
  variables <- variables[kept]
  used <- if (length(used)) used[kept[-1], , drop = FALSE] > 0 else matrix(NA, length(kept) - 1, 0)
  # what `. - text` takes off need not be readable
  stays <- rowSums(used) > 0
  if (!is_path(data)) for (name in all.vars(as.call(c(quote(c), variables[c(FALSE, !stays)])))) column_of(data, name)
  variables <- variables[c(TRUE, stays)]
  used <- used[stays, , drop = FALSE]
  factors <- Map(translate_factor, variables[-1], list(state), rownames(used))
  terms <- lapply(seq_len(ncol(used)), function(j) unname(which(used[, j])))
  if (any(lengths(terms) == 0)) fail("formula_error", "the response cannot also stand on the right-hand side.")
  powers <- spread_powers(factors, terms)
  factors <- powers$factors
  terms <- powers$terms
  codes <- vapply(factors, function(f) f$code, "")
  right <- vapply(terms, function(term) paste(codes[term], collapse = ":"), "")
  if (!length(right) && !attr(layout, "intercept")) {
    fail("formula_error", "the formula has no terms; write at least the constant, response ~ 1.")
  }
  if (!length(right)) right <- "1" else if (!attr(layout, "intercept")) right <- c("0", right)
  left <- vapply(responses, function(r) r$code, "")
  list(
    formula = stats::formula(layout, env = globalenv()),
    python = paste(paste(left, collapse = " + "), "~", paste(right, collapse = " + ")),
    intercept = attr(layout, "intercept") == 1,
    factors = unname(factors),
    terms = terms,
    # the term of the formula that each of them belongs to
    of = powers$of,
    term_labels = colnames(used),
    responses = names(answers),
    response_codes = left,
    response_text = deparse1(formula[[2]]),
    offset = offset,
    weights = if (is.null(of_rows)) weights else of_rows,
    reads = state$reads,
    levels = state$levels
  )
}

checked_formula <- function(formula) {
  if (is.character(formula) && length(formula) == 1 && !is.na(formula)) {
    formula <- tryCatch(stats::as.formula(formula), error = function(e) NULL)
  }
  if (!inherits(formula, "formula")) fail("parameter_error", "formula must be a formula such as y ~ x1 + x2.")
  if (length(formula) != 3) fail("formula_error", "the formula has no response; write response ~ terms.")
  # the environment of a formula can hold the data
  environment(formula) <- globalenv()
  formula
}

# terms(), with `.` standing for the columns that the left-hand side does not name, without those with a part of their own.
formula_terms <- function(formula, data, aside = NULL) {
  if ("." %in% all.vars(formula[[3]])) {
    names <- if (is_path(data)) as.character(unlist(unwrap(bridge()$column_names(data)))) else names(data)
    names <- setdiff(names, c(all.vars(formula[[2]]), aside))
    if (!length(names)) fail("formula_error", "'.' stands for the other columns, but there are none.")
    others <- Reduce(function(a, b) call("+", a, b), lapply(names, as.name))
    formula[[3]] <- if (is.name(formula[[3]])) others else substitute_dot(formula[[3]], call("(", others))
  }
  tryCatch(stats::terms(formula), error = function(e) {
    fail("formula_error", "the formula cannot be read: ", conditionMessage(e), ".")
  })
}

substitute_dot <- function(expr, others) {
  if (identical(expr, quote(.))) return(others)
  if (is.call(expr)) expr[-1] <- lapply(as.list(expr)[-1], substitute_dot, others)
  expr
}

responses_in <- function(expr) {
  if (!is_call(expr, "cbind")) return(stats::setNames(list(expr), deparse1(expr)))
  parts <- as.list(expr)[-1]
  if (!length(parts)) fail("formula_error", "the formula has no response; write response ~ terms.")
  labels <- vapply(parts, deparse1, "")
  if (!is.null(names(parts))) labels[nzchar(names(parts))] <- names(parts)[nzchar(names(parts))]
  stats::setNames(parts, labels)
}

# -- variables ---------------------------------------------------------------------------------------------

translate_response <- function(expr, state) {
  check_bar(expr, state)
  list(code = standing_alone(expr, numeric_code(expr, state)))
}

# The offsets of the formula and of the call as one: its Python `code`, and the R `expr` for predictions.
offset_in <- function(calls, state, glm) {
  if (length(calls) && is.null(glm)) {
    fail("formula_error", "the formula cannot contain offset(): subtract it from the response instead, as in I(y - x).")
  }
  if (length(calls) && !glm$takes_offset) fail("formula_error", glm$name, " takes no offset().")
  exprs <- c(lapply(calls, function(call) call[[2]]), glm$offset)
  if (!length(exprs)) return(NULL)
  expr <- added(exprs)
  list(code = standing_alone(expr, numeric_code(expr, state)), expr = expr)
}

added <- function(exprs) Reduce(function(a, b) call("+", a, b), exprs)

# The offset that the call of a fit named beside its formula.
offset_of_call <- function(object) {
  if (is.null(object$offset)) return(NULL)
  layout <- terms_of(object$formula)
  at <- attr(layout, "offset")
  if (is.null(at)) return(object$offset)
  written <- added(lapply(as.list(attr(layout, "variables"))[at + 1], function(call) call[[2]]))
  if (!identical(object$offset, written)) object$offset[[3]]
}

# The one response of a generalised linear model: a number, or one of two levels where that is allowed.
glm_response <- function(answers, state, glm) {
  if (length(answers) > 1) {
    fail("formula_error", glm$name, " takes one response",
         if (glm$takes_levels) "; of successes and failures write a row for each trial", ".")
  }
  expr <- answers[[1]]
  if (!glm$takes_levels) return(translate_response(expr, state))
  if (is_call(expr, c("relevel", "C", "ordered"))) {
    refuse(expr, "of the two levels of a response the second is the event: write factor(x, levels = c(...))")
  }
  if (is_call(expr, c("factor", "as.factor"))) {
    check_event(expr, eval_levels(expr))
    return(list(code = categorical(expr, state)$code))
  }
  name <- if (is.name(expr)) as.character(expr)
  kind <- if (!is.null(name)) column_kind(name, state)
  if (identical(kind, "text")) undeclared(name)
  if (!identical(kind, "factor")) return(translate_response(expr, state))
  declared <- state$declared[[name]]
  check_event(expr, if (is.null(declared)) levels_of(column_of(state$data, name)) else declared)
  read_column(name, state)
  list(code = python_name(name))
}

eval_levels <- function(expr) {
  args <- match_arguments(expr, c("x", "levels"))
  if (!is.null(args$levels)) constants(args$levels, expr)
}

check_event <- function(expr, levels) {
  if (is.null(levels) || length(levels) == 2) return(invisible())
  fail("formula_error", "the response '", deparse1(expr), "' has ", length(levels),
       " levels; it must have two, of which the second is the event.")
}

translate_factor <- function(expr, state, label) {
  check_bar(expr, state)
  found <- if (is_call(expr, c("C", "factor", "as.factor", "ordered", "relevel"))) {
    categorical(expr, state)
  } else if (is_call(expr, "cut")) {
    intervals(expr, state)
  } else if (is_call(expr, "bs")) {
    spline(expr, state)
  } else if (is_call(expr, "poly")) {
    return(raw_powers(expr, state, label))
  } else if (is.name(expr) && column_kind(as.character(expr), state) == "factor") {
    check_contrasts(as.character(expr), state)
    read_column(as.character(expr), state)
    list(code = python_name(as.character(expr)), expr = expr)
  } else {
    list(code = standing_alone(expr, numeric_code(expr, state)), expr = expr)
  }
  found$label <- label
  found
}

# A bar outside of I() is a logical or between truth values alone; between others it was hardly meant to be one.
check_bar <- function(expr, state) {
  while (is_call(expr, "(")) expr <- expr[[2]]
  if (!is_call(expr, c("|", "||")) || (is_call(expr, "|") && is_truth(expr, state))) return(invisible())
  refuse(expr, paste("a bar is the logical or, written I(a | b); fixed effects of persons are unit = with effects = \"unit\",",
                     "and random effects are not fitted"))
}

is_truth <- function(expr, state) {
  if (is.name(expr)) return(column_kind(as.character(expr), state) == "truth")
  if (is_call(expr, c("(", "!", "&", "|"))) return(all(vapply(as.list(expr)[-1], is_truth, NA, state)))
  is_call(expr, c("<", "<=", ">", ">=", "==", "!="))
}

# Arithmetic needs I() around it where Python's formulas would read its operators as their own.
standing_alone <- function(expr, code) {
  while (is_call(expr, c("I", "("))) expr <- expr[[2]]
  calls <- c(names(row_functions), "log", "pmin", "pmax", "ifelse")
  quotient <- grepl("\\) / np[.]log\\([0-9.e+-]+\\)$", code)
  if (is.name(expr) || (is_call(expr, calls) && !quotient)) code else paste0("I(", code, ")")
}

column_kind <- function(name, state) {
  if (name %in% names(state$declared)) return("factor")
  if (is_path(state$data)) return("unknown")
  x <- column_of(state$data, name)
  kind <- kind_of(x, name)
  if (kind == "factor" && !length(levels_of(x))) fail("schema_error", "the factor '", name, "' has no levels.")
  kind
}

read_column <- function(name, state) state$reads <- union(state$reads, name)

# A name as it is typed.
typed <- function(name) if (make.names(name) == name) name else paste0("`", name, "`")

undeclared <- function(name) {
  shown <- typed(name)
  fail("schema_error", "column '", name, "' holds text and its levels are not declared; declare them with levels = ",
       "list(", shown, " = c(...)), with factor(", shown, ", levels = c(...)) in the formula, or as a factor, whose ",
       "levels are taken as public.")
}

# -- categorical variables -----------------------------------------------------------------------------------

categorical <- function(expr, state) {
  args <- match_arguments(expr, switch(
    called(expr),
    C = c("x", "contr"), factor = c("x", "levels"), ordered = c("x", "levels"), relevel = c("x", "ref"), "x"
  ))
  if (is.null(args$x)) refuse(expr, "it names no column")
  levels <- if (!is.null(args$levels)) constants(args$levels, expr)
  contrast <- contrast_code(args, expr)
  if (called(expr) == "C" && is.null(contrast) && is.name(args$x)) check_contrasts(as.character(args$x), state)
  extra <- paste0(
    if (length(contrast)) paste0(", ", contrast),
    if (length(levels)) paste0(", levels=[", paste(vapply(levels, literal, ""), collapse = ", "), "]")
  )
  if (is.name(args$x)) {
    name <- as.character(args$x)
    kind <- column_kind(name, state)
    if (kind == "text") {
      if (!length(levels)) undeclared(name)
      state$levels[[name]] <- union(state$levels[[name]], as.character(levels))
    } else if (kind == "number" && !length(levels)) {
      refuse(expr, paste0("the levels of the numeric column '", name, "' must be written out, levels = c(...)"))
    }
    read_column(name, state)
    code <- python_name(name)
  } else if (is_call(args$x, "cut")) {
    if (length(levels)) refuse(expr, "the levels of cut() are its labels, cut(x, c(...), labels = c(...))")
    found <- intervals(args$x, state)
    if (length(contrast)) found$code <- paste0("C(", found$code, extra, ")")
    return(found)
  } else {
    if (!length(levels)) refuse(expr, "the levels of an expression must be written out, levels = c(...)")
    code <- numeric_code(args$x, state)
  }
  list(code = paste0("C(", code, extra, ")"), expr = args$x)
}

# A number cut at breaks that the formula writes out; the labels are those that R gives.
intervals <- function(expr, state) {
  args <- match_arguments(expr, c("x", "breaks", "labels", "include.lowest", "right", "dig.lab"))
  if (is.null(args$x)) refuse(expr, "it names no column")
  breaks <- if (!is.null(args$breaks)) sort(vapply(constants(args$breaks, expr, infinite = TRUE), number_of, 0, expr))
  if (length(breaks) == 1) refuse(expr, paste0(learns, "; write the breaks out, as in c(0, 18, 65, Inf)"))
  if (length(breaks) < 3 || anyDuplicated(breaks)) refuse(expr, "the breaks must be three distinct numbers or more; Inf is one")
  flag <- function(name, default) {
    value <- if (is.null(args[[name]])) default else args[[name]]
    if (is.name(value)) value <- c(T = TRUE, F = FALSE)[as.character(value)][[1]]
    if (!isTRUE(value) && !isFALSE(value)) refuse(expr, paste(name, "must be TRUE or FALSE"))
    value
  }
  right <- flag("right", TRUE)
  lowest <- flag("include.lowest", FALSE)
  digits <- if (is.null(args$dig.lab)) 3L else as.integer(number_of(constants(args$dig.lab, expr)[[1]], expr))
  labels <- if (!is.null(args$labels)) unlist(constants(args$labels, expr))
  if (is.null(args$labels) || isTRUE(labels)) {
    labels <- levels(cut(numeric(), breaks, include.lowest = lowest, right = right, dig.lab = digits))
  }
  if (!is.character(labels) || length(labels) != length(breaks) - 1 || anyDuplicated(labels)) {
    refuse(expr, paste("labels must be", length(breaks) - 1, "distinct texts, one for each interval"))
  }
  written <- function(values, how) paste0("[", paste(vapply(values, how, ""), collapse = ", "), "]")
  end <- function(x) if (is.finite(x)) literal(x) else if (x < 0) "-np.inf" else "np.inf"
  list(
    code = paste0(
      "cut(", numeric_code(args$x, state), ", ", written(breaks, end), if (!right) ", right=False",
      ", labels=", written(labels, literal), if (lowest) ", include_lowest=True", ")"
    ),
    expr = args$x
  )
}

# Contrasts that a factor carries would be ignored.
check_contrasts <- function(name, state) {
  if (is_path(state$data) || is.null(attr(column_of(state$data, name), "contrasts"))) return(invisible())
  fail("schema_error", "column '", name, "' has contrasts of its own, as contrasts(", name, ") <- sets them, which are not used: ",
       "write them in the formula, as in C(", name, ", contr.sum), and take them off with attr(data$", name, ", \"contrasts\") <- NULL.")
}

contrast_code <- function(args, expr) {
  if (!is.null(args$ref)) return(paste0("Treatment(", literal(constants(args$ref, expr)[[1]]), ")"))
  if (is.null(args$contr)) return(NULL)
  known <- c(treatment = "Treatment", sum = "Sum", helmert = "Helmert", poly = "Poly")
  name <- if (is.name(args$contr)) sub("^contr[.]", "", as.character(args$contr)) else ""
  if (!name %in% names(known)) {
    refuse(expr, "the contrasts are contr.treatment, contr.sum, contr.helmert and contr.poly, by name")
  }
  known[[name]]
}

# -- splines ---------------------------------------------------------------------------------------------------

spline <- function(expr, state) {
  args <- match_arguments(expr, c("x", "df", "knots", "degree", "intercept", "Boundary.knots"))
  if (is.null(args$x)) refuse(expr, "it names no column")
  if (!is.null(args$df)) {
    refuse(expr, "df would place the knots at quantiles of the data; write them out, knots = c(...)")
  }
  if (is.null(args$knots)) refuse(expr, "the knots must be written out, knots = c(...)")
  numbers <- function(arg) vapply(constants(arg, expr), number_of, 0, expr)
  given <- list(
    knots = numbers(args$knots),
    degree = if (is.null(args$degree)) 3L else as.integer(numbers(args$degree)[1]),
    intercept = isTRUE(args$intercept)
  )
  ends <- if (!is.null(args$Boundary.knots)) numbers(args$Boundary.knots)
  if (!is.null(ends) && length(ends) != 2) refuse(expr, "Boundary.knots are two numbers")
  code <- paste0(
    "bs(", numeric_code(args$x, state), ", knots=[", paste(vapply(given$knots, literal, ""), collapse = ", "), "]",
    if (!is.null(args$degree)) paste0(", degree=", given$degree),
    if (given$intercept) ", include_intercept=True",
    if (!is.null(ends)) paste0(", lower_bound=", literal(ends[1]), ", upper_bound=", literal(ends[2])),
    ")"
  )
  list(code = code, expr = args$x, spline = given)
}
