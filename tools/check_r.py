"""``R CMD check --as-cran`` of the R package, without its tests, which ``tests/r_bridge`` runs.

    .venv/bin/python tools/check_r.py     # a minute and a half

It fails with an error, a warning or a note but that the package is new; where R or a package that it needs is
missing, with DPSTATS_REQUIRE_R=1 alone.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "r_bridge"
PACKAGES = (
    "reticulate", "generics", "testthat", "broom", "ggplot2", "tibble", "emmeans", "insight", "parameters",
    "knitr", "rmarkdown",
)  # fmt: skip
INCOMING = r"feasibility \.\.\. NOTE\nMaintainer: .*\n\nNew submission\n\*"


def environment() -> dict[str, str]:
    """What the R processes see: this Python, no network, a locale whatever the machine has."""
    names = ("PATH", "HOME", "TMPDIR", "NUMBA_CACHE_DIR")
    kept = {name: os.environ[name] for name in names if name in os.environ}
    return kept | {
        "RETICULATE_PYTHON": sys.executable,
        # R checks in a folder that holds the R package's own `dpstats`, which must not hide an editable
        # install
        "PYTHONPATH": str(SOURCE.parent),
        "DPSTATS_REQUIRE_PYTHON": "1",
        "NOT_CRAN": "true",
        "LC_ALL": "C.UTF-8",
        "_R_CHECK_CRAN_INCOMING_REMOTE_": "false",
        "_R_CHECK_FORCE_SUGGESTS_": "true",
        "_R_CHECK_SYSTEM_CLOCK_": "false",
        # a machine under load is slow
        "_R_CHECK_EXAMPLE_TIMING_THRESHOLD_": "120",
        "_R_CHECK_URLS_": "false",
        "OMP_NUM_THREADS": "1",
    }


def r(*args: str, cwd: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    """R CMD, with its output."""
    return subprocess.run(
        ["R", "CMD", *args],
        cwd=cwd,
        env=environment() | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
    )


def built(folder: Path, *options: str) -> str:
    """The name of the source package, built in the folder."""
    done = r("build", "--no-manual", *options, str(SOURCE), cwd=folder)
    if done.returncode:
        raise RuntimeError(done.stdout[-3000:])
    (archive,) = folder.glob("dpstats_*.tar.gz")
    return archive.name


def no_network(folder: Path) -> dict[str, str]:
    """A profile with an empty repository, where ``R CMD check`` looks up the packages that there are."""
    (folder / "src" / "contrib").mkdir(parents=True)
    (folder / "src" / "contrib" / "PACKAGES").touch()
    names = ", ".join(f'{name} = "{folder.as_uri()}"' for name in ("CRAN", "BioCsoft", "BioCann", "BioCexp"))
    (folder / "profile.R").write_text(f"options(repos = c({names}))\n")
    return {"R_PROFILE": str(folder / "profile.R")}


def wrong(said: str) -> bool:
    """Whether what the check said has an error, a warning, or a note but that the package is new."""
    found = re.findall(r"^\* (.*\.\.\.(?: \[.*\])? (?:NOTE|WARNING|ERROR))$", said, re.MULTILINE)
    if found == ["checking CRAN incoming feasibility ... NOTE"]:
        return re.search(INCOMING, said) is None
    return bool(found)


def missing() -> str:
    """What is needed and not there: R, or packages."""
    if shutil.which("Rscript") is None:
        return "R"
    code = "cat(Filter(function(p) !requireNamespace(p, quietly = TRUE), commandArgs(TRUE)), sep = ', ')"
    done = subprocess.run(
        ["Rscript", "--vanilla", "-e", code, *PACKAGES], stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


def main() -> int:
    if lacking := missing():
        print(f"The R package is not checked: there is no {lacking}.")
        return int(os.environ.get("DPSTATS_REQUIRE_R") == "1")
    # the manual is made where there is LaTeX, by fonts that every LaTeX has
    manual = [] if shutil.which("pdflatex") else ["--no-manual"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        given = no_network(folder / "repository") | {"R_RD4PDF": "times,hyper"}
        done = r("check", "--as-cran", "--no-tests", *manual, built(folder), cwd=folder, **given)
    failed = done.returncode != 0 or wrong(done.stdout)
    print(done.stdout if failed else "R CMD check: no error, no warning, no note but that it is new.")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
