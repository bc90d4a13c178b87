# The printed table, laid out as that of lm().

#' Summary of a private fit
#'
#' The table of coefficients as [summary.lm()] prints it, what else was released, what the intervals cover, and what the
#' release cost.
#'
#' @param object A fit, from [dp_ols()] and its kin, or a `by =` collection of fits.
#' @param level Confidence of the intervals; see [confint()][dpstats-methods].
#' @param x A summary.
#' @param digits,signif.stars As in [stats::printCoefmat()]. There are no stars by default: the standard errors hold
#'   the privacy noise too, and the interval is what to read.
#' @param ... Of `print()`: `signif.legend`, `dig.tst`, `eps.Pvalue`, `na.print`, `quote` and `right`, as in [stats::printCoefmat()].
#'   Otherwise refused.
#'
#' @return A list of class `"summary.dpstats"`: `coefficients` (a matrix as in [summary.lm()]), `confint`, `released`,
#'   `guarantee` and the sentences that are printed; `r.squared`, `adj.r.squared` and `sigma` as in [summary.lm()], `NULL` where
#'   nothing was released, and `df`, in which the number of rows is the released one. `residuals` are refused.
#' @examplesIf dp_available() && requireNamespace("ggplot2", quietly = TRUE)
#' summary(dp_tukey_em(price ~ carat + clarity, data = ggplot2::diamonds, eps = 1))
#' @export
summary.dpstats <- function(object, level = 1 - object$alpha, ...) {
  no_others(...)
  check_level(level)
  letter <- if (is.null(object$df)) "z" else "t"
  statistics <- test_statistics(object)
  table <- cbind(shown_coefficients(object), standard_errors(object), statistics, p_values(statistics, object$df))
  dimnames(table) <- list(
    names(object$coefficients),
    c("Estimate", "Std. Error", paste(letter, "value"), paste0("Pr(>|", letter, "|)"))
  )
  structure(
    list(
      method = object$method, formula = object$formula, offset = offset_of_call(object), coefficients = table,
      confint = confint.dpstats(object, level = level), level = level,
      limited = object$limited,
      determined = determined(object), coverage = coverage_sentence(object, level), cov_type = object$cov_type,
      released = object$released, guarantee = object$guarantee,
      notes = object$notes, r.squared = object$released[["rsquared"]], adj.r.squared = adjusted(object),
      sigma = object$released[["sigma"]], dispersion = object$released[["dispersion"]],
      deviance = object$released[["deviance"]], null.deviance = object$released[["null_deviance"]], df = c(nrow(table), as.numeric(nobs.dpstats(object)) - nrow(table), nrow(table))
    ),
    class = "summary.dpstats"
  )
}

# As Python's `rsquared_adj`.
adjusted <- function(object) {
  rsquared <- object$released[["rsquared"]]
  if (is.null(rsquared)) return(NULL)
  rows <- as.numeric(nobs.dpstats(object))
  left <- rows - length(object$coefficients)
  if (isTRUE(left > 0)) 1 - (1 - rsquared) * (rows - 1) / left else NA_real_
}

#' @export
`$.summary.dpstats` <- function(x, name) {
  if (name == "residuals") not_released("residuals")
  unclass(x)[[name, exact = FALSE]]
}

#' @export
sigma.summary.dpstats <- function(object, ...) {
  no_others(...)
  if (is.null(object$sigma)) not_released("sigma", no_sigma)
  object$sigma
}

#' @rdname summary.dpstats
#' @export
print.summary.dpstats <- function(x, digits = max(3L, getOption("digits") - 3L), signif.stars = FALSE, ...) {
  if (!all(given_names(...) %in% c("signif.legend", "dig.tst", "eps.Pvalue", "na.print", "quote", "right"))) no_others(...)
  print_title(x, x$offset)
  cat("Coefficients:\n")
  rownames(x$coefficients) <- with_limits(rownames(x$coefficients), x$limited)
  print_coefficients(x$coefficients, x$confint, digits, signif.stars, !all(x$determined), ...)
  cat("\n")
  print_released(x$released, digits, x$cov_type, unit = x$guarantee$unit, method = x$method)
  print_sentences(c(if (isTRUE(x$exponentiate)) exponentiated, if (!all(x$determined)) legend(length(x$determined)), x$coverage, promise(x$guarantee)))
  print_spends(x$guarantee)
  print_sentences(x$notes, "Note: ")
  invisible(x)
}

#' @rdname dpstats-methods
#' @param digits Number of significant digits.
#' @export
print.dpstats <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  no_others(...)
  print_title(x, offset_of_call(x))
  cat("Coefficients:\n")
  shown <- stats::setNames(zapped(shown_coefficients(x)), with_limits(names(x$coefficients), x$limited))
  print(format(shown, digits = digits), print.gap = 2L, quote = FALSE)
  cat("\n")
  lost <- names(x$coefficients)[!determined(x)]
  if (length(lost)) print_sentences(paste0("Not determined: ", listed(lost), "."))
  print_sentences(promise(x$guarantee))
  invisible(x)
}

# As Python's tables have it: what noise has brought next to 0 is 0.
zapped <- function(estimates) ifelse(abs(estimates) < 1e-40, 0, estimates)

# What stands below a table in which not all of so many coefficients are determined.
legend <- function(columns) {
  what <- if (columns > 1) "more rows, a larger eps or fewer columns" else "more rows or a larger eps"
  paste0("NA: not determined; ", what, " may help.")
}

exponentiated <- "exp(coef) with its interval; standard errors and z are of coef."

# What a table calls coefficients: those about limited values say so.
with_limits <- function(names, limited) {
  if (is.null(limited)) return(names)
  ifelse(is.na(limited$text), names, paste0(names, ", limited to ", limited$text))
}

# The first items of a list in a sentence, and how many more there are.
listed <- function(items, shown = 3) {
  more <- length(items) - shown
  paste0(paste(utils::head(items, shown), collapse = ", "), if (more > 0) paste(" and", more, "more"))
}

print_title <- function(x, offset) {
  cat("\n", x$method, " (differentially private)\n\nFormula:\n", sep = "")
  cat(strwrap(deparse1(x$formula), exdent = 4), sep = "\n")
  if (!is.null(offset)) cat(strwrap(paste("Offset:", deparse1(offset)), exdent = 4), sep = "\n")
  cat("\n")
}

# Columns that nobody could fill are left out, unless that is because nothing is determined (`lost`); the sentence below the
# table says why they are not there. So are the intervals where they would not fit on the line of a table with tests.
print_coefficients <- function(table, confint, digits, signif.stars, lost, ...) {
  table[, 1] <- zapped(table[, 1])
  table[is.na(table)] <- NA
  confint[is.na(confint)] <- NA
  tested <- lost || !all(is.na(table[, 3]))
  spread <- table[, c(TRUE, lost || !all(is.na(table[, 2])), FALSE, FALSE), drop = FALSE]
  ends <- confint[, lost | !apply(is.na(confint), 2, all), drop = FALSE]
  tests <- table[, c(FALSE, FALSE, tested, tested), drop = FALSE]
  text <- coefficient_lines(cbind(spread, ends), tests, digits, signif.stars, ...)
  if (tested && ncol(ends) && max(nchar(text)) > getOption("width")) {
    text <- c(coefficient_lines(spread, tests, digits, signif.stars, ...), "(confint() gives the intervals.)")
  }
  cat(text, sep = "\n")
}

coefficient_lines <- function(numbers, tests, digits, signif.stars, ...) {
  tested <- ncol(tests) > 0
  # columns in units that differ much would all be printed with exponents: then each row has its own decimals
  formatted <- format(numbers[is.finite(numbers)], digits = digits)
  width <- options(width = 1000)
  on.exit(options(width))
  if (any(grepl("e", formatted, fixed = TRUE))) return(row_by_row(numbers, tests, digits, signif.stars, ...))
  utils::capture.output(stats::printCoefmat(
    cbind(numbers, tests), digits = digits, signif.stars = signif.stars, cs.ind = seq_len(ncol(numbers)),
    tst.ind = if (tested) ncol(numbers) + 1 else integer(), P.values = tested, has.Pvalue = tested, ...
  ))
}

# The numbers with decimals of each row, and beside them the tests as printCoefmat() has them, with its legend below.
row_by_row <- function(numbers, tests, digits, signif.stars, ..., na.print = "NA", quote = FALSE, right = TRUE) {
  rows <- apply(numbers, 1, format, digits = digits)
  shown <- matrix(rows, nrow(numbers), ncol(numbers), byrow = TRUE, dimnames = dimnames(numbers))
  shown[is.na(numbers)] <- na.print
  left <- utils::capture.output(print(shown, quote = quote, right = right))
  if (!ncol(tests)) return(left)
  rownames(tests) <- rep("", nrow(tests))
  beside <- utils::capture.output(stats::printCoefmat(
    tests, digits = digits, signif.stars = signif.stars, cs.ind = integer(), tst.ind = 1, P.values = TRUE, has.Pvalue = TRUE,
    na.print = na.print, quote = quote, right = right, ...
  ))
  paste0(c(left, rep("", length(beside) - length(left))), beside)
}

# Of some methods sigma is another scale than that of the residuals' standard deviation.
scale_of <- c("Huber regression" = "Residual scale (MAD)")

print_released <- function(released, digits, cov_type = NULL, unit = NULL, method = "") {
  scale <- if (method %in% names(scale_of)) scale_of[[method]] else "Residual standard deviation"
  what <- if (is.null(unit)) "rows" else "units"
  count <- function(value) format(round(value), big.mark = ",", scientific = FALSE)
  value <- function(value) if (is.na(value)) "NA" else format(value, digits = digits)
  quality <- c(
    if (!is.null(released$sigma)) paste0(scale, ": ", value(released$sigma)),
    if (!is.null(released$rsquared)) paste("R-squared:", value(released$rsquared))
  )
  deviances <- c(
    if (!is.null(released$null_deviance)) paste("Null deviance:", value(released$null_deviance)),
    if (!is.null(released$deviance)) paste("Deviance:", value(released$deviance)),
    if (!is.null(released$dispersion)) paste("Dispersion:", value(released$dispersion))
  )
  counts <- c(
    if (!is.null(released[["nobs"]])) paste(count(released[["nobs"]]), what, "(public)"),
    if (!is.null(released[["n"]])) paste(count(released[["n"]]), what, "(a noisy count)"),
    if (!is.null(released$models)) paste(count(released$models), "models"),
    if (!is.null(released$rounds)) paste(count(released$rounds), if (released$rounds == 1) "round" else "rounds")
  )
  facts <- list(quality, deviances, counts, if (!is.null(cov_type)) paste("Covariance type:", cov_type))
  for (line in facts) if (length(line)) cat(paste(line, collapse = ",\t"), "\n", sep = "")
  if (any(lengths(facts) > 0)) cat("\n")
}

print_sentences <- function(sentences, prefix = "") {
  for (sentence in sentences) cat(strwrap(paste0(prefix, sentence), width = min(78, getOption("width"))), sep = "\n")
}

# The shares of steps in the budget, as dpstats.results.spends.division() has them: what adds up, and its sentence.
by_mu <- "Shares of the budget are those of mu squared, which adds up over the steps."
by_rho <- "Shares of the budget are those of rho, which adds up over the steps."
mixed <- "Shares of the budget are those of eps; the steps with a mu divide the rest by mu squared."

division <- function(guarantee) {
  spends <- guarantee$spends
  gaussian <- !is.na(spends$mu)
  as_shares <- function(costs) if (sum(costs) > 0) costs / sum(costs) else rep(NA_real_, length(costs))
  rest <- guarantee$eps - sum(spends$eps[!gaussian])
  if (NROW(spends) && all(gaussian)) {
    return(list(share = as_shares(spends$mu^2), units = "mu", words = by_mu))
  }
  if (any(gaussian) && rest > 0) {
    squares <- spends$mu[gaussian]^2
    costs <- spends$eps
    costs[gaussian] <- if (sum(squares) > 0) rest * squares / sum(squares) else 0
    return(list(share = as_shares(costs), units = c("eps", "mu"), words = mixed))
  }
  if (sum(spends$eps) > guarantee$eps * (1 + 1e-9) && !anyNA(spends$rho)) {
    return(list(share = as_shares(spends$rho), units = "rho", words = by_rho))
  }
  list(share = as_shares(spends$eps), units = "eps")
}

# How the budget was divided; consecutive equal steps are one line, with what they add together.
print_spends <- function(guarantee) {
  spends <- guarantee$spends
  if (!NROW(spends)) return(invisible())
  divided <- division(guarantee)
  print_sentences(divided$words)
  spends$share <- divided$share
  runs <- rle(do.call(paste, c(spends, sep = "\r")))
  times <- runs$lengths
  first <- spends[cumsum(times) - times + 1, ]
  first$step[times > 1] <- paste0(first$step[times > 1], " (", times[times > 1], " times)")
  # each step shows the numbers by which it adds
  by <- ifelse("mu" %in% divided$units & !is.na(first$mu), "mu", ifelse("rho" %in% divided$units, "rho", "eps"))
  numbers <- list(
    eps = ifelse(by == "eps", times * first$eps, NA), delta = ifelse(by == "eps", times * first$delta, NA),
    mu = ifelse(by == "mu", sqrt(times) * first$mu, NA), rho = ifelse(by == "rho", times * first$rho, NA)
  )
  numbers <- numbers[vapply(numbers, function(v) any(v > 0, na.rm = TRUE), NA)]
  words <- paste0(first$step, ": ", first$mechanism)
  shown <- vapply(numbers, function(v) ifelse(is.na(v), "", formatC(v, digits = 3, format = "g")), character(nrow(first)))
  shown <- cbind(percents(times * first$share), matrix(shown, nrow(first)))
  dimnames(shown) <- list(NULL, c("share", names(numbers)))
  room <- getOption("width") - sum(pmax(nchar(colnames(shown)), apply(nchar(shown), 2, max)) + 1)
  long <- nchar(words) > room
  words[long] <- paste0(substr(words[long], 1, room - 3), "...")
  rownames(shown) <- formatC(words, width = -max(nchar(words)))
  cat("\n")
  width <- options(width = 1000)
  on.exit(options(width))
  print(shown, quote = FALSE, right = TRUE)
}

# Shares in percent to one decimal, rounded so that what is printed adds up to 100.
percents <- function(share) {
  if (anyNA(share)) return(rep("", length(share)))
  tenths <- floor(1000 * share)
  up <- utils::head(order(tenths - 1000 * share), 1000 - sum(tenths))
  tenths[up] <- tenths[up] + 1
  paste0(formatC(tenths / 10, format = "f", digits = 1), " %")
}

coverage_sentence <- function(object, level) {
  intervals <- paste0(format(100 * level), "% intervals", if (!is.null(object$vcov)) " and standard errors")
  if (object$covers == covers_both) return(paste0(intervals, " cover ", covers_both, "."))
  if (object$covers == covers_noise) {
    return(paste0(
      intervals, " cover ", covers_noise, ": they are about the estimate that these data would give without noise, not ",
      "about a population. Hence there are no tests."
    ))
  }
  paste("No intervals.", object$covers)
}

# Beyond these a guarantee protects little, as the Python package has it.
large <- list(eps = 20, delta = 1e-3)

# The sentences that state a guarantee.
promise <- function(guarantee) {
  unit <- guarantee$unit
  what <- if (is.null(unit)) "one record" else paste0("all rows of one '", unit, "'")
  relation <- if (guarantee$neighbours == "add-remove") {
    paste(what, "added or removed")
  } else {
    paste0(what, " replaced; the number of ", if (is.null(unit)) "rows" else "units", " is public")
  }
  random <- !guarantee$kind %in% c("pure", "approximate")
  kind <- if (random) {
    "random differential privacy (claimed by the paper, unproven)"
  } else {
    paste(guarantee$kind, "differential privacy")
  }
  number <- function(value) format(value, digits = 6)
  c(
    paste0("Privacy: eps = ", number(guarantee$eps), ", delta = ", number(guarantee$delta), ", ", kind,
           ". Neighbours: ", relation, "."),
    if (random) {
      share <- if (is.null(guarantee$gamma)) "some share" else paste("a share gamma =", number(guarantee$gamma))
      paste0("This is weaker than differential privacy: for ", share, " of the data sets that a population could ",
             "give, nothing is promised.")
    },
    if (guarantee$eps > large$eps || guarantee$delta > large$delta) {
      much <- c(if (guarantee$eps > large$eps) paste("eps =", number(guarantee$eps)),
                if (guarantee$delta > large$delta) paste("delta =", number(guarantee$delta)))
      paste0("NOTE: ", paste(much, collapse = " and "), ": that protects little. Usual are eps from a tenth to a few, and ",
             "delta far below one over the number of rows.")
    },
    if (!is.null(guarantee$scope)) paste("Scope:", guarantee$scope),
    if (guarantee$seeded) {
      paste("WARNING: SEEDED. The randomness came from a seed, so this release PROTECTS NOBODY: whoever knows the",
            "seed can undo the noise.")
    }
  )
}

#' @rdname dp_guarantee
#' @export
print.dpstats_guarantee <- function(x, ...) {
  no_others(...)
  print_sentences(promise(x))
  print_spends(x)
  invisible(x)
}
