#!/usr/bin/env bash
# Makes the virtual environment .venv with dpstats and the named extras. Idempotent; needs Python >= 3.11.
set -euo pipefail
cd "$(dirname "$0")/.."
extras=${1:-arrow,plot}

find_python() {
  local candidate
  for candidate in "${PYTHON:-}" python3 python3.14 python3.13 python3.12 python3.11; do
    [ -n "$candidate" ] || continue
    if command -v "$candidate" >/dev/null && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
      echo "$candidate"
      return
    fi
  done
  echo "dpstats needs Python 3.11 or later; set PYTHON to its path." >&2
  exit 1
}

# A failure says so in its last lines, and leaves no half-made environment that a later run would take for a whole one.
made=
failed() {
  local status=$?
  [ "$status" = 0 ] && return
  [ -z "$made" ] || rm -rf .venv
  {
    echo
    echo "tools/setup.sh FAILED (exit code $status): dpstats[$extras] is not installed${made:+; .venv is removed}."
    case ",$extras," in *,r,*)
      echo "The extra r builds rpy2 against R and its headers (Debian: r-base-dev; tools/debian_packages.sh installs all)."
      echo "To run the tests without R: make test TEST_EXTRAS=test"
    esac
  } >&2
}
trap failed EXIT

if [ ! -x .venv/bin/python ]; then
  python=$(find_python)
  if ! "$python" -c 'import ensurepip' 2>/dev/null; then
    # Debian ships ensurepip in a package of its own
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
      apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv
    else
      echo "Python's ensurepip is missing: install the package python3-venv." >&2
      exit 1
    fi
  fi
  rm -rf .venv
  made=yes
  "$python" -m venv .venv
fi

stamp=.venv/.installed-$(echo "$extras" | tr ',' '-')
if [ ! -e "$stamp" ] || [ pyproject.toml -nt "$stamp" ]; then
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --editable ".[$extras]"
  touch "$stamp"
fi
