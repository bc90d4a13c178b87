# Raw polynomials: the powers of an expression, which need one row alone. Python sees each power as a term.

raw_powers <- function(expr, state, label) {
  args <- match_arguments(expr, c("x", "degree", "coefs", "raw", "simple"))
  if (is.null(args$x)) refuse(expr, "it names no column")
  if (!isTRUE(args$raw) && !identical(args$raw, quote(T))) refuse(expr, hints[["poly"]])
  if (!is.null(args$coefs)) refuse(expr, "write poly() of one column, its degree and raw = TRUE")
  degree <- if (is.null(args$degree)) 1 else number_of(constants(args$degree, expr)[[1]], expr)
  if (!degree %in% 1:20) refuse(expr, "its degree is a whole number from 1 to 20")
  code <- numeric_code(args$x, state)
  powers <- lapply(seq_len(degree), function(p) {
    list(
      code = if (p == 1) standing_alone(args$x, code) else paste0("I(", grouped(code), " ** ", p, ")"),
      expr = if (p == 1) args$x else call("^", args$x, p),
      label = if (degree == 1) label else paste0(label, p),
      power = p
    )
  })
  list(powers = powers)
}

# Factors and terms with a term for each power, and the position `of` the term that it belongs to.
spread_powers <- function(factors, terms) {
  sets <- lapply(unname(factors), function(factor) if (is.null(factor$powers)) list(factor) else factor$powers)
  last <- cumsum(lengths(sets))
  places <- Map(function(from, to) seq(from, to), last - lengths(sets) + 1, last)
  spread <- lapply(terms, function(term) {
    grid <- as.matrix(expand.grid(places[term]))
    lapply(seq_len(nrow(grid)), function(i) as.integer(grid[i, ]))
  })
  list(
    factors = unlist(sets, recursive = FALSE),
    terms = unlist(spread, recursive = FALSE),
    of = rep(seq_along(terms), lengths(spread))
  )
}

# A choice among terms would choose among the powers.
no_powers <- function(meaning) {
  if (length(meaning$terms) > length(meaning$term_labels)) {
    fail("formula_error", "terms are chosen one by one: write x + I(x^2) in place of poly(x, 2, raw = TRUE).")
  }
}

# Where the columns of a block stand within their term of lm(), in which the powers are the columns of one factor.
places_in_term <- function(block) {
  if (!any(vapply(block$parts, function(part) !is.null(part$power), NA))) return(rep(0, block$width))
  places <- lapply(block$parts, function(part) {
    if (!is.null(part$power)) return(part$power)
    seq_len(switch(part$kind, number = 1, spline = spline_width(part), levels = ncol(part$contrast)))
  })
  as.vector(as.matrix(expand.grid(places)) %*% 1e4^(seq_along(places) - 1))
}
