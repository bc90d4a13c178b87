# The budget of a data set. An R object names the ledger; the file (or the running Python) keeps it.

#' A privacy budget that outlives the session
#'
#' A ledger holds the total budget of a data set. Given to an estimator as `ledger =`, it is charged before any row is
#' read, durably, and never refunds what was spent; what does not fit is refused with an error of class
#' `"dpstats_budget_exceeded"`, and no data are read.
#'
#' @param path A file, created if it does not exist, or `":memory:"` for a ledger that ends with the session, and is of no other
#'   one: not after [readRDS()] in a later one, nor in the workers of a cluster. An
#'   estimator also takes the path of an existing ledger as `ledger = "study.db"`.
#' @param eps,delta The total. May be left out to open an existing ledger.
#' @param dataset Name of the data set; a file can hold several.
#' @param composition How releases add up: `"basic"` (the default), `"zcdp"` or `"gdp"`.
#' @param unit Name of a column: the total is then about all rows of one of its values, and only releases with that
#'   `unit =` are charged. Without it the total is about single records, and a release about units is refused.
#' @param x,ledger A ledger.
#' @param neighbours `"add-remove"` or `"substitution"`: the two relations have separate totals.
#' @param row.names,stringsAsFactors As of [as.data.frame()].
#' @param optional Ignored: [data.frame()] sets it.
#' @param ... Refused.
#'
#' @return `dp_ledger()`: a list of class `"dp_ledger"` with `path`, `eps`, `delta`, `dataset`, `composition` and
#'   `unit`, which
#'   prints as a report. `dp_remaining()`: the largest `eps` and `delta` that one more release may ask for.
#'   `as.data.frame()` and `tidy()`: one row for each release.
#' @examplesIf dp_available()
#' ledger <- dp_ledger(":memory:", eps = 3, delta = 1e-5)
#' fit <- dp_median(mpg ~ 1, data = mtcars, eps = 1, ledger = ledger)
#' ledger
#' dp_remaining(ledger)
#' try(dp_median(mpg ~ 1, data = mtcars, eps = 2.5, ledger = ledger))
#' @export
dp_ledger <- function(path, eps = NULL, delta = NULL, dataset = "default", composition = NULL, unit = NULL) {
  if (missing(path) || !is_path(path)) fail("parameter_error", "path must be the path of a file, or \":memory:\".")
  facts <- for_python(list(
    path = path.expand(path), eps = eps, delta = delta, dataset = dataset, composition = composition,
    unit = unit
  ))
  structure(unwrap(bridge()$ledger(facts, "facts")), class = "dp_ledger")
}

as_ledger <- function(ledger) {
  if (is.null(ledger)) return(NULL)
  if (is_path(ledger)) ledger <- dp_ledger(ledger)
  if (!inherits(ledger, "dp_ledger")) fail("parameter_error", "ledger must be NULL, a dp_ledger(), or its path.")
  unclass(ledger)
}

#' @rdname dp_ledger
#' @export
dp_remaining <- function(ledger, neighbours = "add-remove") {
  left <- unwrap(bridge()$ledger(as_ledger(ledger), "remaining", neighbours))
  stats::setNames(as.double(left), c("eps", "delta"))
}

#' @rdname dp_ledger
#' @export
print.dp_ledger <- function(x, ...) {
  no_others(...)
  cat(in_r_words(unwrap(bridge()$ledger(as_ledger(x), "report"))$text), "\n", sep = "")
  invisible(x)
}

#' @rdname dp_ledger
#' @export
as.data.frame.dp_ledger <- function(x, row.names = NULL, optional = FALSE, stringsAsFactors = FALSE, ...) {
  no_others(...)
  releases <- unwrap(bridge()$ledger(as_ledger(x), "report"))$releases
  releases <- lapply(releases, unlist)
  empty <- !length(releases$eps)
  text <- c("charged_at", "method", "formula", "neighbours", "kind")
  for (name in names(releases)) if (empty) releases[[name]] <- if (name %in% text) character() else numeric()
  releases$seeded <- as.logical(releases$seeded)
  releases$charged_at <- as.POSIXct(releases$charged_at, tz = "UTC", format = "%Y-%m-%dT%H:%M:%OS")
  framed(data.frame(releases), row.names, stringsAsFactors)
}

#' @rdname dp_ledger
#' @export
tidy.dp_ledger <- function(x, ...) {
  no_others(...)
  as_tibble_if_possible(as.data.frame(x))
}
