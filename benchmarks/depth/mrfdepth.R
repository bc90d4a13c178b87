# Depths of mrfDepth for the cases of mrfdepth.py: Rscript --vanilla mrfdepth.R FOLDER
#
# cases.csv has a row for each data set: function, rows, queries, columns. numbers.bin has their doubles, by
# columns, the data and then the queries. Writes depths.csv: a row for each query, NA where there is no value.
# Each data set has a process of its own, as some crash R.
folder <- commandArgs(trailingOnly = TRUE)[1]
cases <- read.csv(file.path(folder, "cases.csv"))
file <- file(file.path(folder, "numbers.bin"), "rb")
invisible(loadNamespace("mrfDepth"))
table_of <- function(rows, columns) matrix(readBin(file, "double", rows * columns), rows, columns)

depths <- lapply(seq_len(nrow(cases)), function(k) {
  case <- cases[k, ]
  x <- table_of(case$rows, case$columns)
  z <- table_of(case$queries, case$columns)
  depth <- if (case$call == "halfspace") mrfDepth::hdepth else mrfDepth::rdepth
  run <- parallel::mcparallel(list(tryCatch(suppressWarnings(depth(x, z))$depthZ, error = function(e) NULL)))
  answer <- suppressWarnings(parallel::mccollect(run))[[1]]
  found <- if (!is.null(answer)) answer[[1]]
  if (is.null(found)) found <- rep(NA_real_, case$queries)
  inner <- flag <- rep(NA_real_, case$queries)
  if (case$call == "regression" && case$columns == 4) { # what its own routine says, before rdepth() returns
    routine <- .Fortran("RDEPTH4", as.double(z[, c(2:4, 1)]), as.integer(case$queries), x[, 1], x[, 2], x[, 3],
      x[, 4], as.integer(case$rows), double(case$queries), integer(case$queries),
      PACKAGE = "mrfDepth"
    )
    inner <- routine[[8]]
    flag <- routine[[9]]
  }
  data.frame(case = k, value = found, inner = inner, flag = flag, crashed = is.null(answer))
})
close(file)
write.csv(do.call(rbind, depths), file.path(folder, "depths.csv"), row.names = FALSE)
cat("mrfDepth ", format(packageVersion("mrfDepth")), ", R ", as.character(getRversion()), "\n", sep = "")
