#!/bin/sh
# Install the R package mrfDepth, against which the tests marked "mrfdepth" compare.
#
#   tools/install_mrfdepth.sh MIRROR|SOURCE [LIBRARY]
#
# MIRROR   address of a CRAN mirror that this machine can reach, or
# SOURCE   the folder or the archive (.tar.gz) of its source; then its dependencies must be installed
#          (what is compiled in the folder is removed again)
# LIBRARY  where to install; by default R's own choice. If it is not on R's path, set R_LIBS to it for the tests.
#
# mrfDepth is compiled from C++ and Fortran: R with its headers, a C++ compiler and gfortran must be there
# (Debian: r-base-dev). Debian packages of its dependencies save most of the compiling:
#   apt-get install r-cran-abind r-cran-geometry r-cran-ggplot2 r-cran-matrixstats r-cran-reshape2 \
#                   r-cran-rcpp r-cran-rcpparmadillo r-cran-rcppeigen
#
# Afterwards:  python -m pytest -m mrfdepth tests/depth
set -eu

if [ $# -lt 1 ] || [ $# -gt 2 ]; then
    sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0" >&2
    exit 2
fi
for tool in Rscript gfortran; do
    command -v "$tool" >/dev/null || { echo "$tool is not on the path" >&2; exit 1; }
done

if [ -e "$1" ]; then
    if [ -d "$1" ] && ! grep -qs '^Package: mrfDepth$' "$1/DESCRIPTION"; then
        echo "$1 is not the source of mrfDepth: its DESCRIPTION would say so" >&2
        exit 1
    fi
    [ -z "${2:-}" ] || mkdir -p "$2"
    exec R CMD INSTALL --preclean --clean ${2:+--library="$2"} "$1"
fi

MRFDEPTH_MIRROR=$1 MRFDEPTH_LIBRARY=${2:-} Rscript --vanilla -e '
library_path <- Sys.getenv("MRFDEPTH_LIBRARY")
lib <- if (nzchar(library_path)) library_path else .libPaths()[1]
dir.create(lib, recursive = TRUE, showWarnings = FALSE)
.libPaths(c(lib, .libPaths()))
install.packages("mrfDepth", lib = lib, repos = Sys.getenv("MRFDEPTH_MIRROR"))
cat("mrfDepth", format(packageVersion("mrfDepth", lib.loc = lib)), "in", lib, "\n")
'
