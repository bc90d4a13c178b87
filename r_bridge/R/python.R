# The border to Python. It is crossed by raw vectors, strings, numbers and lists of these alone: what becomes of
# matrices, data frames and missing values depends on the versions of reticulate and NumPy.

session <- new.env(parent = emptyenv())

.onLoad <- function(libname, pkgname) {
  # reticulate since 1.41 can set up a Python that has what is asked for, unless the user names one. Nothing is asked for by
  # its name alone, which would install whatever a registry has under it.
  requirement <- getOption("dpstats.requirement")
  if (!is.null(requirement) && exists("py_require", asNamespace("reticulate"), inherits = FALSE)) {
    get("py_require", asNamespace("reticulate"))(requirement, python_version = ">=3.11")
  }
  # Where Python runs already, import() does not wait: without dpstats in it the package could not even be loaded.
  if (!reticulate::py_available()) {
    session$bridge <- reticulate::import("dpstats.bridge", delay_load = TRUE)
    session$explore <- reticulate::import("dpstats.bridge_explore", delay_load = TRUE)
  }
}

which_python <- paste0(
  "dp_install(\"/path/to/clone\") installs the Python package; to name a Python that has it, write ",
  "Sys.setenv(RETICULATE_PYTHON = \"/path/to/python\") before the first release of a session. See ?dp_available."
)
restart <- "A session has one Python: restart R first. "

#' Is the Python package there?
#'
#' The estimators run in the Python package `dpstats`, through \pkg{reticulate}. `dp_available()` says whether it can
#' be used, and starts Python to find out. `dp_config()` says which Python that is.
#'
#' @section Which Python:
#' The virtual environment of [dp_install()], if there is one, or else the one that \pkg{reticulate} finds. To name another,
#' set the environment variable `RETICULATE_PYTHON` to its path, or call [reticulate::use_python()] or
#' [reticulate::use_virtualenv()], before the first private release of the session. A session has one Python: where another
#' package has started one, R has to be restarted.
#'
#' Releases of \pkg{reticulate} from 1.41 on can set up a Python by themselves if none is named. With the option
#' `dpstats.requirement` set before the package is loaded, to the path of a clone or of a wheel, it is asked for that.
#' Without the option nothing is asked for.
#'
#' Results are plain R objects: printing, predicting from and saving them needs no Python.
#'
#' @return `dp_available()`: `TRUE` or `FALSE`. `dp_config()`: a list with the path of Python and the versions of
#'   Python and of the Python package.
#' @examples
#' dp_available()
#' @export
dp_available <- function() {
  is.null(tryCatch(missing_python(), error = function(e) "no Python"))
}

#' @rdname dp_available
#' @export
dp_config <- function() {
  bridge()
  config <- reticulate::py_config()
  list(
    python = config$python,
    version = as.character(config$version),
    dpstats = reticulate::import("dpstats")[["__version__"]]
  )
}

# Why the Python package cannot be used; NULL if it can.
missing_python <- function() {
  use_installed()
  if (!reticulate::py_available(initialize = TRUE)) {
    return(paste0("dpstats needs Python, and reticulate found none. ", which_python))
  }
  if (!reticulate::py_module_available("dpstats")) {
    python <- reticulate::py_config()$python
    return(paste0("the Python package 'dpstats' is not installed in ", python, ", which this session uses. ", restart, which_python))
  }
  if (!reticulate::py_has_attr(reticulate::import("dpstats"), "__version__")) {
    return(paste0("a folder named 'dpstats' in ", getwd(), " hides the Python package; use another working directory."))
  }
  # what it needs may be missing
  tryCatch({
    reticulate::import("dpstats.bridge")
    NULL
  }, error = function(e) {
    python <- reticulate::py_config()$python
    paste0("the Python package 'dpstats' in ", python, " cannot be loaded (", trimws(conditionMessage(e)), "). ", restart, which_python)
  })
}

bridge <- function() {
  if (!isTRUE(session$ready)) {
    reason <- tryCatch(missing_python(), error = function(e) {
      paste0("Python could not be started (", conditionMessage(e), "). ", restart, which_python)
    })
    if (!is.null(reason)) fail("python_error", reason)
    session$ready <- TRUE
  }
  if (is.null(session$bridge)) session$bridge <- reticulate::import("dpstats.bridge")
  session$bridge
}

# What is called before and after a fit; loaded when it is needed.
explore <- function() {
  bridge()
  if (is.null(session$explore)) session$explore <- reticulate::import("dpstats.bridge_explore")
  session$explore
}

# Arguments as reticulate passes them on unchanged: a vector that Python should see as a list must be a list here.
for_python <- function(options) {
  for (name in names(options)) {
    value <- options[[name]]
    if (is.null(value)) next
    if (!is.atomic(value) && !is.list(value)) fail("parameter_error", name, " must be a number, a string or a list.")
    flat <- unlist(value)
    if (anyNA(flat)) fail("parameter_error", name, " must not be NA.")
    if (!is.null(flat) && !typeof(flat) %in% c("logical", "integer", "double", "character")) {
      fail("parameter_error", name, " must hold numbers, strings or truth values.")
    }
    options[[name]] <- if (is.factor(value)) as.character(value) else as_plain(value)
  }
  options
}

as_plain <- function(value) {
  if (is.list(value)) return(lapply(value, as_plain))
  if (!is.null(names(value))) return(lapply(as.list(value), as_plain))
  value <- as.vector(value)
  if (length(value) == 1) value else as.list(value)
}
