# Columns of a data frame: what is public about them (their kind and levels), and their way to Python.

is_path <- function(data) is.character(data) && length(data) == 1 && is.null(dim(data)) && !is.na(data)

check_data <- function(data) {
  if (missing(data)) fail("parameter_error", "data is missing: it must be a data frame, or the path of a file.")
  if (is_path(data)) return(path.expand(data))
  if (inherits(data, queries)) {
    fail("parameter_error", "data must be a data frame or the path of a file, not an object of class ", class(data)[1],
         ", whose rows are elsewhere: collect() it first, or write it to a Parquet file (in DuckDB by COPY ... TO) and ",
         "give the path.")
  }
  if (!is.list(data)) {
    fail("parameter_error", "data must be a data frame, a list of columns or the path of a file, not ",
         "an object of class ", class(data)[1], ".")
  }
  lengths <- vapply(data, NROW, 0)
  if (is.null(names(data)) || length(data) == 0 || any(lengths != lengths[1])) {
    fail("parameter_error", "data must have named columns of one length.")
  }
  data
}

# Queries and tables that dbplyr, dtplyr and arrow keep in a database or in files.
queries <- c("tbl_lazy", "dtplyr_step", "ArrowTabular", "Dataset", "arrow_dplyr_query", "RecordBatchReader")

# Levels and bounds as the user declared them: lists by column.
check_declared <- function(value, what, example, data) {
  if (is.null(value)) return(NULL)
  named <- is.list(value) && !is.null(names(value)) && all(nzchar(names(value))) && !anyDuplicated(names(value))
  if (!named || !all(vapply(value, is.atomic, NA))) {
    fail("parameter_error", what, " must be a list by column name, as in ", what, " = ", example, ".")
  }
  if (!is_path(data)) for (name in names(value)) column_of(data, name)
  value <- lapply(value, function(v) if (is.factor(v)) as.character(v) else if (is_time(v)) numbers_in(v) else v)
  if (anyNA(unlist(value))) fail("parameter_error", what, " must not hold NA.")
  if (what == "levels") for (name in names(value)) check_levels(value[[name]], name, data)
  value
}

check_levels <- function(levels, name, data) {
  if (!length(levels)) fail("schema_error", "levels$", name, " must hold at least one level.")
  if (anyDuplicated(levels)) fail("schema_error", "levels$", name, " must hold distinct levels.")
  if (is_path(data)) return(invisible())
  x <- column_of(data, name)
  kind <- kind_of(x, name)
  fits <- switch(kind, number = is.numeric(levels), truth = is.logical(levels), is.character(levels))
  wanted <- c(number = "numbers", truth = "FALSE and TRUE", text = "strings", factor = "strings")[[kind]]
  what <- c(number = "holds numbers", truth = "is logical", text = "holds text", factor = "is a factor")[[kind]]
  if (!fits) fail("schema_error", "column '", name, "' ", what, ", so its levels must be ", wanted, ".")
}

# A column, or an error that says which there are.
column_of <- function(data, name) {
  same <- which(names(data) == name)
  if (length(same) > 1) fail("schema_error", "the column name '", name, "' occurs more than once; rename the columns.")
  if (length(same) == 1) return(data[[same]])
  near <- names(data)[utils::adist(name, names(data), ignore.case = TRUE) <= nchar(name) %/% 3]
  if (length(near)) {
    fail("schema_error", "there is no column ", quoted_name(name), "; did you mean ",
         paste0("'", utils::head(near, 2), "'", collapse = " or "), "?")
  }
  shown <- utils::head(names(data), 20)
  more <- if (length(data) > 20) paste0(" and ", length(data) - 20, " more") else ""
  fail("schema_error", "there is no column ", quoted_name(name), "; the columns are ",
       paste0("'", shown, "'", collapse = ", "), more, ".")
}

# A name for a message; a long text may be data that were given in its place.
quoted_name <- function(name) if (nchar(name) <= 80) paste0("'", name, "'") else "of that name"

# Classes that say how numbers, truth values or texts are shown, and leave what they are.
plain_classes <- c(
  "AsIs", "labelled", "haven_labelled", "haven_labelled_spss", "vctrs_vctr", "units", "ts", "numeric", "double", "integer",
  "character", "logical"
)

is_time <- function(x) inherits(x, c("Date", "POSIXct", "difftime"))

# "number", "truth", "factor" or "text", from the type alone; an error for anything else.
kind_of <- function(x, name) {
  if (is.data.frame(x)) fail("schema_error", "column '", name, "' is itself a data frame; split it into columns.")
  if (length(dim(x)) > 2 || NCOL(x) != 1) {
    fail("schema_error", "column '", name, "' is a matrix of several columns, and bounds and levels are declared by column; ",
         "make a column of each.")
  }
  if (is.factor(x)) return("factor")
  if (inherits(x, "POSIXlt")) {
    fail("schema_error", "column '", name, "' has class POSIXlt; convert it with as.POSIXct() or as.Date() first.")
  }
  if ((is_time(x) && is.numeric(unclass(x))) || (inherits(x, "integer64") && is.double(x))) return("number")
  classes <- setdiff(oldClass(x), plain_classes)
  if (length(classes)) {
    fail("schema_error", "column '", name, "' has class ", classes[1], ", which is neither numeric nor a factor; ",
         "convert it with as.numeric() or factor() first.")
  }
  kind <- c(double = "number", integer = "number", logical = "truth", character = "text")[typeof(x)]
  if (is.na(kind)) {
    fail("schema_error", "column '", name, "' has type ", typeof(x), ", which is neither numeric nor categorical.")
  }
  unname(kind)
}

# What to know about columns that are not used as they look. From their types alone.
about_columns <- function(data, names) {
  if (is_path(data)) return(character())
  said <- lapply(names, function(name) {
    x <- column_of(data, name)
    if (inherits(x, c("Date", "POSIXct"))) return(paste0("Column '", name, "' is in days since 1970-01-01."))
    if (inherits(x, "difftime")) return(paste0("Column '", name, "' is in days. Its units in R are taken as public: R's `-` chooses them by the ",
                                              "smallest value, as.difftime(units =) does not."))
    if (any(c("scaled:center", "scaled:scale") %in% names(attributes(x)))) {
      paste0("Column '", name, "' was made by scale(). If its centre and scale are those of the rows, the guarantee does not ",
             "cover that step.")
    }
  })
  as.character(unlist(said))
}

# The levels that a column has by its type: those of a factor without NA.
levels_of <- function(x) {
  if (is.factor(x)) enc2utf8(levels(x)[!is.na(levels(x))]) else if (is.logical(x)) c(FALSE, TRUE)
}

# Numbers as doubles, NA where missing; times in days. bit64's integers are 64 bits in the place of a double.
numbers_in <- function(x) {
  if (!inherits(x, "integer64")) {
    values <- exact_numbers(x)
    if (inherits(x, "POSIXct")) return(values / 86400)
    # of whole microseconds, which of a few years are the same number whatever units R has chosen
    if (inherits(x, "difftime")) return(round(values * seconds_in[[attr(x, "units")]] * 1e6) / 1e6 / 86400)
    return(values)
  }
  halves <- halves_of(x)
  replace(halves$high * 2^32 + halves$low, halves$missing, NA)
}

# What 64-bit integers have of 2^32, and the rest; whether they are bit64's missing one.
halves_of <- function(x) {
  bytes <- writeBin(as.vector(unclass(x)), raw(), endian = "little")
  halves <- matrix(readBin(bytes, "integer", 2 * length(x), size = 4, endian = "little"), nrow = 2)
  low <- ifelse(is.na(halves[1, ]), 2^31, halves[1, ] + (halves[1, ] < 0) * 2^32)
  high <- halves[2, ]
  missing <- is.na(high) & halves[1, ] %in% 0L
  high[is.na(high)] <- -2^31
  # (ifelse() would make truth values of a column without any number)
  list(high = as.double(high), low = as.double(low), missing = missing)
}

seconds_in <- c(secs = 1, mins = 60, hours = 3600, days = 86400, weeks = 604800)

# Values that haven's type declares to be missing, as SPSS has them.
declared_missing <- function(x) {
  values <- attr(x, "na_values", exact = TRUE)
  range <- attr(x, "na_range", exact = TRUE)
  if (!inherits(x, "haven_labelled_spss") || is.null(values) && is.null(range)) return(integer())
  x <- readable(x)
  which(x %in% readable(values) | if (is.null(range)) FALSE else x >= range[1] & x <= range[2])
}

# Positions among levels, NA where a value is none of them.
codes_in <- function(x, levels) {
  if (is.character(levels)) return(match(if (is.factor(x)) texts_of(x) else valid_text(x), levels))
  if (is.factor(x) || is.character(x)) return(rep(NA_integer_, length(x)))
  match(numbers_in(x), as.double(levels))
}

# The levels that a factor's values have, NA for a code of none: as.character() would stop at one.
texts_of <- function(x) {
  codes <- as.vector(unclass(x))
  codes[!codes %in% seq_along(levels(x))] <- NA
  valid_text(levels(x))[as.integer(codes)]
}

# Strings in UTF-8, NA for one that equals no level.
valid_text <- function(x) {
  missing <- declared_missing(x)
  x <- readable(as.character(if (is.factor(x)) x else as.vector(unclass(x))))
  x[missing] <- NA
  enc2utf8(x)
}

# Values without their class, NA for strings of bytes and those that their encoding does not allow; match() would stop
# at one.
readable <- function(x) {
  x <- as.vector(unclass(x))
  if (is.character(x)) x[Encoding(x) == "bytes" | !validEnc(x)] <- NA
  x
}

# A column as the bridge takes it. Codes start at 1; 0 stands for a missing value.
cross_column <- function(x, levels = NULL) {
  if (is.null(levels) && is.logical(x)) {
    return(list(kind = "truth", values = as_bytes(codes_in(x, c(FALSE, TRUE)))))
  }
  if (is.null(levels)) return(list(kind = "number", values = writeBin(as.double(numbers_in(x)), raw())))
  list(kind = "factor", values = as_bytes(codes_in(x, levels)), levels = as.list(levels))
}

as_bytes <- function(codes) {
  codes[is.na(codes)] <- 0L
  writeBin(as.integer(codes), raw())
}
