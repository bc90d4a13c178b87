#' Install the Python package
#'
#' Makes a virtual environment for Python and installs the Python package `dpstats` into it, with what it needs.
#' Environments named `r-dpstats` are found by [dp_available()] and by every release, so nothing else has to be set.
#'
#' @param source Where the Python package comes from: the path of a clone of the project, of a wheel or of a source archive
#'   (with extras, as in `"path/to/clone[arrow]"`, which reads Parquet and Feather files), or a requirement that `pip`
#'   understands. By default the option `dpstats.requirement`. There is no other default: a name alone would install
#'   whatever a registry has under it.
#' @param envname Name of the virtual environment, or the path of its folder.
#' @param python The Python to make it with, 3.11 or later; by default the first that is found.
#' @param pip_options Further arguments of `pip install`, such as `"--no-index"`.
#' @return The path of the Python of the environment, invisibly.
#' @seealso [dp_available()]
#' @examples
#' \dontrun{
#' dp_install("path/to/clone[arrow]")
#' }
#' @export
dp_install <- function(source = getOption("dpstats.requirement"), envname = "r-dpstats", python = NULL,
                       pip_options = character()) {
  source <- check_source(source)
  if (!is_path(envname) || !nzchar(envname)) fail("parameter_error", "envname must be a name or the path of a folder.")
  if (!is.character(pip_options) || anyNA(pip_options)) fail("parameter_error", "pip_options must be strings.")
  # reticulate says "~/.virtualenvs", which system2() would quote
  folder <- path.expand(if (grepl("[/\\\\]", envname)) envname else file.path(reticulate::virtualenv_root(), envname))
  inside <- environment_python(folder)
  if (!file.exists(inside)) {
    python <- find_python(python)
    message("Making the virtual environment ", folder)
    # on Debian and its kin the module is in a package of its own
    run_python(python, c("-m", "venv", shQuote(folder)), "the virtual environment could not be made",
               "On Debian and Ubuntu the system package python3-venv must be there.")
  }
  message("Installing ", source)
  run_python(
    inside, c("-m", "pip", "install", "--disable-pip-version-check", shQuote(c(pip_options, source))),
    "pip could not install the package", "Its last lines say why."
  )
  if (reticulate::py_available(initialize = FALSE)) {
    message("This session has started Python already: restart R to use what was installed.")
  }
  if (envname != "r-dpstats") {
    message("To use it, write Sys.setenv(RETICULATE_PYTHON = \"", inside, "\") before the first release of a session.")
  }
  invisible(inside)
}

# The source as pip takes it: a path absolute, its extras kept.
check_source <- function(source) {
  if (!is_path(source) || !nzchar(source)) {
    fail("parameter_error", "source must be the path of a clone of the project, of a wheel or of a source archive, or a ",
         "requirement for pip.")
  }
  extras <- regmatches(source, regexpr("\\[[A-Za-z0-9_,. -]*\\]$", source))
  path <- sub("\\[[A-Za-z0-9_,. -]*\\]$", "", source)
  if (!file.exists(path.expand(path))) {
    if (grepl("^[~./]|[/\\\\]|[.](whl|gz|zip)$", path) && !grepl("@|://", path)) {
      fail("parameter_error", "source names no file or folder: ", path, ".")
    }
    return(source)
  }
  if (dir.exists(path.expand(path)) && !file.exists(file.path(path.expand(path), "pyproject.toml"))) {
    fail("parameter_error", "source must be the folder of the clone that has pyproject.toml in it, and this one has none: ",
         path, ".")
  }
  paste0(normalizePath(path), extras)
}

environment_python <- function(folder) {
  if (.Platform$OS.type == "windows") file.path(folder, "Scripts", "python.exe") else file.path(folder, "bin", "python")
}

find_python <- function(python = NULL) {
  tried <- if (is.null(python)) c("python3", paste0("python3.", 14:11), "python") else check_python(python)
  tried <- unique(Sys.which(tried))
  for (candidate in tried[nzchar(tried)]) {
    new <- shQuote("import sys; sys.exit(sys.version_info < (3, 11))")
    if (suppressWarnings(system2(candidate, c("-c", new), stdout = FALSE, stderr = FALSE)) == 0) return(candidate)
  }
  fail("python_error", if (is.null(python)) "no Python 3.11 or later was found" else "python must be of version 3.11 or later",
       "; name one, as in dp_install(python = \"/path/to/python3\").")
}

check_python <- function(python) {
  if (!is_path(python) || !nzchar(Sys.which(python))) {
    fail("parameter_error", "python must be the path of a Python interpreter.")
  }
  python
}

run_python <- function(python, arguments, what, hint) {
  # R puts its libraries in front of Python's, whose ssl may not load with them
  env <- if (.Platform$OS.type == "unix") "LD_LIBRARY_PATH=" else character()
  said <- suppressWarnings(system2(python, arguments, stdout = TRUE, stderr = TRUE, env = env))
  status <- attr(said, "status")
  if (is.null(status) || status == 0) return(invisible())
  fail("python_error", what, ":\n", paste(utils::tail(said, 12), collapse = "\n"), "\n", hint)
}

# The environment of dp_install(), if no other Python is named.
use_installed <- function() {
  named <- nzchar(Sys.getenv(c("RETICULATE_PYTHON", "RETICULATE_PYTHON_ENV")))
  if (any(named) || reticulate::py_available(initialize = FALSE)) return(invisible())
  folder <- file.path(reticulate::virtualenv_root(), "r-dpstats")
  if (file.exists(environment_python(folder))) reticulate::use_virtualenv(folder, required = FALSE)
}
