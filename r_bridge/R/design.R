# The columns of a design matrix: their names as in lm(), their order, and their values for new rows.

# `blocks` as the bridge describes them. Treatment contrasts and full coding are recognised by their indicator
# columns and named by levels; other contrasts as R names them. Where the margin of a term is missing they have a column of
# ones before them, "mean" as in Python.
as_design <- function(blocks, meaning, bounds) {
  blocks <- lapply(blocks, function(block) {
    block$parts <- lapply(block$parts, function(part) {
      part <- c(part, meaning$factors[[part$factor + 1]])
      part$factor <- part$code <- NULL
      if (part$kind == "levels") {
        part$levels <- unlist(part$levels)
        part$contrast <- matrix(as_numbers(part$contrast), ncol = part$width, byrow = TRUE)
      }
      part
    })
    block
  })
  terms <- vapply(blocks, function(block) if (is.null(block$term)) 0L else meaning$of[block$term + 1L], 0L)
  names <- unlist(lapply(blocks, block_names))
  widths <- vapply(blocks, function(block) as.integer(block$width), 0L)
  order <- order(rep(terms, widths), unlist(lapply(blocks, places_in_term)))
  list(
    blocks = blocks,
    names = names[order],
    order = order,
    terms = setdiff(unique(terms), 0L),
    assign = rep(terms, widths)[order],
    bounds = lapply(bounds, unlist)
  )
}

block_names <- function(block) {
  if (!length(block$parts)) return("(Intercept)")
  parts <- lapply(block$parts, part_names, block$width)
  # the columns of the first part vary fastest
  Reduce(function(a, b) as.vector(outer(a, b, paste, sep = ":")), parts)
}

part_names <- function(part, width) {
  if (part$kind == "number") return(part$label)
  if (part$kind == "spline") return(paste0(part$label, seq_len(spline_width(part))))
  contrast <- part$contrast
  if (ncol(contrast) == 0) return(character())
  if (all(colSums(contrast == 1) == 1) && all(contrast %in% c(0, 1))) {
    return(paste0(part$label, part$levels[apply(contrast == 1, 2, which)]))
  }
  whole <- ncol(contrast) == nrow(contrast)
  if (whole) contrast <- contrast[, -1, drop = FALSE]
  scores <- stats::contr.poly(nrow(contrast))
  powers <- isTRUE(all.equal(contrast, unclass(scores), check.attributes = FALSE))
  paste0(part$label, c(if (whole) "mean", if (powers) colnames(scores) else seq_len(ncol(contrast))))
}

spline_width <- function(part) length(part$spline$knots) + part$spline$degree + part$spline$intercept

# The design matrix of new rows, in R's order of columns; NA in rows that cannot be used. Columns are moved into the limits
# of the fit, and the attribute "moved" tells in which rows; with `limit = FALSE` they are as they are.
design_matrix <- function(design, newdata, limit = TRUE) {
  if (!is.list(newdata)) fail("parameter_error", "newdata must be a data frame.")
  X <- lapply(design$blocks, function(block) block_values(block, newdata, design$bounds))
  rows <- if (is.data.frame(newdata)) nrow(newdata) else if (length(newdata)) NROW(newdata[[1]]) else 0L
  X <- lapply(X, function(x) if (is.null(x)) matrix(1, rows, 1) else x)
  X <- do.call(cbind, X)[, design$order, drop = FALSE]
  X[!is.finite(rowSums(X)), ] <- NA
  colnames(X) <- design$names
  if (!limit) return(X)
  inside <- X
  if (length(design$low)) inside[] <- pmin(pmax(X, rep(design$low, each = rows)), rep(design$high, each = rows))
  structure(inside, moved = rowSums(inside != X) > 0 | beyond_bounds(design, newdata, rows))
}

# In which rows a column that is read as a number lies beyond its declared bounds, into which its values are moved.
beyond_bounds <- function(design, newdata, rows) {
  expressions <- unlist(lapply(design$blocks, function(block) lapply(block$parts, function(part) part$expr)))
  found <- logical(rows)
  for (name in intersect(unlist(lapply(expressions, all.vars)), names(Filter(length, design$bounds)))) {
    x <- number_column(name, newdata, NULL)
    found <- found | (!is.na(x) & (x < design$bounds[[name]][1] | x > design$bounds[[name]][2]))
  }
  found
}

block_values <- function(block, newdata, bounds) {
  values <- NULL
  for (part in block$parts) {
    x <- switch(
      part$kind,
      number = as.matrix(evaluate(part$expr, newdata, bounds)),
      spline = spline_values(part, evaluate(part$expr, newdata, bounds)),
      levels = part$contrast[level_codes(part, newdata, bounds), , drop = FALSE]
    )
    if (is.null(values)) values <- x else {
      values <- values[, rep(seq_len(ncol(values)), ncol(x)), drop = FALSE] *
        x[, rep(seq_len(ncol(x)), each = ncol(values)), drop = FALSE]
    }
  }
  values
}

# An expression of the closed grammar (R/formula.R): it names columns and calls functions of base R alone.
evaluate <- function(expr, newdata, bounds) {
  names <- all.vars(expr)
  columns <- lapply(stats::setNames(nm = names), function(name) number_column(name, newdata, bounds[[name]]))
  columns <- columns[!vapply(columns, is.null, NA)]
  value <- suppressWarnings(as.double(eval(expr, columns, baseenv())))
  value[!is.finite(value)] <- NA
  value
}

number_column <- function(name, newdata, limits) {
  if (name == "pi" && !name %in% names(newdata)) return(NULL)
  x <- column_of(newdata, name)
  if (!kind_of(x, name) %in% c("number", "truth")) {
    fail("schema_error", "column '", name, "' is not numeric; the formula uses it as a number.")
  }
  x <- numbers_in(x) + 0  # there is one zero, as in Python
  x[!is.finite(x)] <- NA
  if (is.null(limits)) x else pmin(pmax(x, limits[1]), limits[2])
}

level_codes <- function(part, newdata, bounds) {
  if (length(part$breaks)) {
    x <- evaluate(part$expr, newdata, bounds)
    return(cut(x, as_numbers(part$breaks), labels = FALSE, include.lowest = part$include_lowest, right = part$right))
  }
  if (!is.name(part$expr)) return(match(evaluate(part$expr, newdata, bounds), as.double(part$levels)))
  x <- column_of(newdata, as.character(part$expr))
  kind_of(x, as.character(part$expr))
  codes_in(x, part$levels)
}

spline_values <- function(part, x) {
  usable <- !is.na(x)
  x <- pmin(pmax(x, part$lower), part$upper)
  x[!usable] <- part$lower
  basis <- splines::bs(
    x, knots = part$spline$knots, degree = part$spline$degree, intercept = part$spline$intercept,
    Boundary.knots = c(part$lower, part$upper)
  )
  basis <- matrix(basis, nrow = length(x))
  basis[!usable, ] <- NA
  basis
}
