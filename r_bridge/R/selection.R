#' Private choice of terms
#'
#' Chooses the `k` terms of a formula that matter most for the response. Nothing has to be tuned; a factor enters as a
#' whole, and the constant is never a candidate.
#'
#' @inheritParams dp_ols
#' @param k Number of terms to choose; smaller than the number of terms.
#' @param method `"kendall"` chooses one by one, by rank correlation with the response less that with the terms chosen
#'   before. `"pairs"` compares all sets of `k` terms (at most 7) by how well the signs of their differences order pairs of
#'   rows. `"sub_lasso"` lets the Lasso on random subsets of the rows vote (needs the Python package scikit-learn).
#'   `"auto"` is `"pairs"` from four terms on, where the sets are few enough, and otherwise `"kendall"`.
#' @param neighbours `"add-remove"` or `"substitution"`.
#' @param delta In `[0, 1)`. 0 gives a pure guarantee; a positive `delta` composes the rounds more tightly.
#'
#' @return A list of class `"dpstats_selection"` with the `terms` in order of choice (or of the formula, if they were chosen
#'   at once), the `rounds` in which they were chosen, the number of `columns` of each, the `candidates`, and the
#'   `guarantee`. [formula()] is that of the chosen model, for an estimator; `tidy()` has a row
#'   for each term.
#' @examplesIf dp_available() && requireNamespace("ggplot2", quietly = TRUE)
#' choice <- dp_select_features(price ~ carat + depth + table + clarity, ggplot2::diamonds,
#'                              k = 2, eps = 1)
#' choice
#' fit <- dp_ols(formula(choice), ggplot2::diamonds, eps = 1)
#' @export
dp_select_features <- function(formula, data, k, eps, delta = 0, method = "auto", neighbours = "add-remove",
                               bounds = NULL, levels = NULL, unit = NULL, ledger = NULL, seed = NULL, ...) {
  no_more(...)
  request <- prepare(formula, data, levels, bounds, NULL, unit)
  options <- for_python(list(
    k = need(k, "k"), eps = need(eps, "eps"), delta = delta, method = method, neighbours = neighbours, seed = seed
  ))
  meaning <- request$meaning
  no_powers(meaning)
  answer <- bridge()$select(
    meaning$python, request$columns, c(options, list(bounds = request$bounds, levels = request$levels, unit = request$unit)),
    as_ledger(ledger), lapply(meaning$factors, function(f) f$code), lapply(meaning$terms, function(t) as.list(t - 1L))
  )
  answer <- unwrap(answer, request)
  terms <- as_numbers(answer$terms) + 1
  structure(
    list(
      method = answer$method,
      formula = formula_of_terms(meaning, sort(terms)),
      response = meaning$response_text,
      terms = meaning$term_labels[terms],
      rounds = as.integer(as_numbers(answer$rounds)),
      columns = as.integer(as_numbers(answer$columns)),
      candidates = meaning$term_labels[sort(as_numbers(answer$candidates)) + 1],
      guarantee = as_guarantee(answer$guarantee)
    ),
    class = "dpstats_selection"
  )
}

#' @rdname dp_select_features
#' @param x A selection.
#' @param digits Number of significant digits.
#' @export
print.dpstats_selection <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  no_others(...)
  cat("\n", x$method, " (differentially private)\n\n", sep = "")
  cat("Response: ", x$response, ", ", length(x$candidates), " candidate terms\n\n", sep = "")
  print(tidy_selection(x), digits = digits, row.names = FALSE)
  cat("\nThe selected model is:\n", strwrap(deparse1(x$formula), exdent = 4), sep = "")
  cat("\n\n")
  print_sentences(c(about_choice, promise(x$guarantee)))
  print_spends(x$guarantee)
  invisible(x)
}

about_choice <- paste(
  "Scores are not released. An interval from a later fit on the same data is about the model chosen here; it",
  "does not cover the choice."
)

#' @rdname dp_select_features
#' @export
formula.dpstats_selection <- function(x, ...) {
  no_others(...)
  x$formula
}

#' @rdname dpstats-tidiers
#' @export
tidy.dpstats_selection <- function(x, ...) {
  no_others(...)
  as_tibble_if_possible(tidy_selection(x))
}

tidy_selection <- function(x) data.frame(term = x$terms, round = x$rounds, columns = x$columns)
