#!/usr/bin/env bash
# From a clone to the first table, in an empty folder and timed: tools/first_table.sh [FILE]; prints a CSV, or writes it.
# The commands are those of README.md and r_bridge/README.md, read from there. Needs Python 3.11 or later and git, and for
# the steps in R the Debian packages r-base-core r-cran-reticulate r-cran-generics r-cran-broom r-cran-ggplot2.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=$("${PYTHON:-python3}" -c 'import sys; print(sys.executable)')
export HOME="$folder/home" R_LIBS="$folder/library" PIP_DISABLE_PIP_VERSION_CHECK=1
unset PYTHONPATH VIRTUAL_ENV
mkdir -p "$HOME/bin" "$R_LIBS"
ln -s "$python" "$HOME/bin/python3"
export PATH="$HOME/bin:$PATH"

# block FILE LANGUAGE: the first block of code in that language
block() { awk -v start="\`\`\`$2" '$0 == start { on = 1; next } on && /^```/ { exit } on' "$1"; }

# command FILE PATTERN: the one line of the blocks of shell that has it, without its comment
command_of() {
  awk -v want="$2" '/^```/ { on = ($0 == "```sh") } on && index($0, want) { sub(/ +#.*/, ""); print; exit }' "$1" | grep .
}

rows="language,step,seconds,machine,load"
machine="$(uname -m), $(nproc) cores, Python $(python3 -c 'import platform; print(platform.python_version())')"
# timed LANGUAGE STEP COMMAND: in the clone, or in an empty folder before there is one
timed() {
  local from until
  from=$(date +%s.%N)
  bash -c "$3" >"$folder/out" 2>&1 || { cat "$folder/out" >&2; echo "FAILED: $3" >&2; exit 1; }
  until=$(date +%s.%N)
  rows+=$'\n'"$1,$2,$(awk "BEGIN { printf \"%.1f\", $until - $from }"),\"$machine\",$(cut -d" " -f1 /proc/loadavg)"
  echo "$(tail -n 1 <<<"$rows")   $3" >&2
}

cd "$folder"
timed Python clone "git clone -q '$root' clone"
cd clone
readme=$PWD/README.md bridge=$PWD/r_bridge/README.md
timed Python venv "python3 -m venv '$HOME/env'"
timed Python install "PATH='$HOME/env/bin':\$PATH; $(command_of "$readme" 'pip install .')"
mkdir "$folder/empty"
block "$readme" python >"$folder/empty/first.py"
block "$bridge" r >"$folder/empty/first.R"
cd "$folder/empty"
timed Python "first table" "'$HOME/env/bin/python' first.py && test -s '$folder/out'"
grep -q "Private OLS" "$folder/out"
timed Python "second session" "'$HOME/env/bin/python' first.py"

if command -v Rscript >/dev/null; then
  cd "$folder/clone"
  timed R "install R" "$(command_of "$bridge" 'R CMD INSTALL')"
  timed R "install Python" "$(command_of "$bridge" 'dp_install')"
  cd "$folder/empty"
  timed R "first table" "Rscript first.R"
  grep -q "Private OLS" "$folder/out"
  timed R "second session" "Rscript first.R"
fi

if [ $# -gt 0 ]; then echo "$rows" >"$1"; else echo "$rows"; fi
