#!/usr/bin/env bash
# Installs what the tests need of Debian, where it is missing: R and R packages (ddalpha to compare depths with; the R
# package's own, and those of its tests and help pages; those whose functions take its results; what renders the vignettes and
# what R CMD check asks for), and Java for Spark. Without LaTeX the check leaves the PDF manual out.
set -euo pipefail
packages=(
  r-base-core r-base-dev r-cran-ddalpha
  r-cran-reticulate r-cran-generics r-cran-broom r-cran-ggplot2 r-cran-tibble r-cran-testthat
  r-cran-emmeans r-cran-insight r-cran-parameters
  r-cran-car r-cran-lmtest r-cran-multcomp r-cran-sandwich
  r-cran-knitr r-cran-rmarkdown r-cran-mass pandoc qpdf tidy
  default-jre-headless
)
missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "Missing Debian packages: ${missing[*]}" >&2
  exit 1
fi
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
