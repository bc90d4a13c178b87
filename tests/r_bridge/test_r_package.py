"""The R package: built, checked as R checks packages, and its tests run with this Python."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "r_bridge"
PACKAGES = (
    "reticulate", "generics", "testthat", "broom", "ggplot2", "tibble", "emmeans", "insight", "parameters",
    "knitr", "rmarkdown",
)  # fmt: skip

INCOMING = r"feasibility \.\.\. NOTE\nMaintainer: .*\n\nNew submission\n\*"

pytestmark = pytest.mark.r(*PACKAGES)


def environment():
    """What the R processes see: this Python, no network, a locale whatever the machine has."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
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


def r(*args, cwd, **variables):
    return subprocess.run(
        [shutil.which("R"), "CMD", *args],
        cwd=cwd,
        env=environment() | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder with the source package, and its name."""
    folder = tmp_path_factory.mktemp("r_package")
    done = r("build", "--no-manual", str(SOURCE), cwd=folder)
    assert done.returncode == 0, done.stdout[-3000:]
    (archive,) = folder.glob("dpstats_*.tar.gz")
    return folder, archive.name


@pytest.fixture(scope="module")
def library(built, tmp_path_factory):
    """A library with the source package installed."""
    folder, archive = built
    made = tmp_path_factory.mktemp("library")
    done = r("INSTALL", f"--library={made}", archive, cwd=folder)
    assert done.returncode == 0, done.stdout[-3000:]
    return made


def no_network(folder):
    """A profile with an empty repository, where ``R CMD check`` looks up the packages that there are."""
    (folder / "src" / "contrib").mkdir(parents=True)
    (folder / "src" / "contrib" / "PACKAGES").touch()
    names = ", ".join(f'{name} = "{folder.as_uri()}"' for name in ("CRAN", "BioCsoft", "BioCann", "BioCexp"))
    (folder / "profile.R").write_text(f"options(repos = c({names}))\n")
    return {"R_PROFILE": str(folder / "profile.R")}


def manual():
    """What to tell R of the manual: it is made where there is LaTeX, by fonts that every LaTeX has."""
    return [] if shutil.which("pdflatex") else ["--no-manual"]


@pytest.mark.slow
def test_check(built, tmp_path):
    """``R CMD check --as-cran``: no error or warning, no note but that it is new, and no test skipped."""
    folder, archive = built
    done = r(
        "check", "--as-cran", *manual(), archive, cwd=folder, R_RD4PDF="times,hyper", **no_network(tmp_path)
    )
    results = folder / "dpstats.Rcheck"
    tests = "".join(path.read_text(errors="replace") for path in results.glob("tests/testthat.Rout*"))
    assert done.returncode == 0, done.stdout[-4000:] + tests[-6000:]
    found = re.findall(r"^\* (.*\.\.\.(?: \[.*\])? (?:NOTE|WARNING|ERROR))$", done.stdout, re.MULTILINE)
    assert found in ([], ["checking CRAN incoming feasibility ... NOTE"]), done.stdout[-6000:]
    assert not found or re.search(INCOMING, done.stdout), done.stdout[:3000]
    counts = re.findall(r"\[ FAIL (\d+) \| WARN (\d+) \| SKIP (\d+) \| PASS (\d+) \]", tests)
    assert counts, tests[-3000:]
    failed, warned, skipped, passed = map(int, counts[-1])
    assert (failed, warned, skipped) == (0, 0, 0), tests[-6000:]
    assert passed > 500


@pytest.mark.slow
def test_clean_session(library, tmp_path):
    """The example of the README, installed into a library of its own."""
    script = (
        "library(dpstats); fit <- dp_tukey_em(price ~ carat + clarity, data = ggplot2::diamonds, eps = 1); "
        "summary(fit); confint(fit); broom::tidy(fit); "
        # R's fork does not tell Python, whose threads stay behind
        "x <- rnorm(150000); d <- data.frame(x = x, y = x + rnorm(150000)); "
        "first <- dp_ols(y ~ x, d, eps = 1); "
        "forked <- parallel::mclapply(1:2, function(i) coef(dp_ols(y ~ x, d, eps = 1))[[2]]); "
        'cat("forked:", all(abs(unlist(forked) - 1) < 0.2))'
    )
    done = subprocess.run(
        [shutil.which("Rscript"), "--vanilla", "-e", script],
        cwd=tmp_path,
        env=environment() | {"R_LIBS": str(library)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    for expected in (
        "forked: TRUE",
        "claritySI2",
        "Pr(>|z|)",
        "97.5 %",
        "A tibble: 9",
        "Privacy: eps = 1, delta = 1e-06",
    ):
        assert expected in done.stdout, done.stdout


@pytest.mark.slow
def test_dp_install(library, tmp_path):
    """It installs what it is given, here an empty package, and a new session finds it by itself."""
    wheel = tmp_path / "dpstats-9.9-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("dpstats/__init__.py", "__version__ = '9.9'\n")
        about = "dpstats-9.9.dist-info"
        file.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: dpstats\nVersion: 9.9\n")
        file.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{about}/RECORD", "")

    def session(code, attach="library(dpstats); "):
        kept = {k: v for k, v in environment().items() if k not in ("RETICULATE_PYTHON", "PYTHONPATH")}
        # where reticulate keeps environments when nobody says where: under ~
        (tmp_path / "home").mkdir(exist_ok=True)
        done = subprocess.run(
            [shutil.which("Rscript"), "--vanilla", "-e", attach + code],
            cwd=tmp_path,
            env=kept | {"R_LIBS": str(library), "HOME": str(tmp_path / "home")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )
        return done.stdout

    refused = session("for (s in list(NULL, 1, '/nowhere/x', tempdir())) try(dp_install(s))")
    assert refused.count("Error : source ") == 4, refused
    python = f'python = "{sys.executable}"'
    assert "r-dpstats" in session(f'print(dp_install("{wheel}", {python}, pip_options = "--no-index"))')
    assert "TRUE" in session('cat(dp_available(), grepl("r-dpstats", reticulate::py_config()$python))')
    other = f'reticulate::use_python("{tmp_path}/other/bin/python", required = TRUE); reticulate::py_config()'
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "other")], check=True)
    assert "restart R" in session(f"{other}; try(dp_mean(mpg ~ 1, mtcars, eps = 1))")
    before = f'{other}; library(dpstats); cat(dp_available(), ""); try(dp_mean(mpg ~ 1, mtcars, eps = 1))'
    said = session(before, attach="")
    assert "FALSE" in said and "restart R" in said


@pytest.mark.slow
def test_snapshots_are_committed():
    """``R CMD check`` adds a missing snapshot with a warning; here it is missed."""
    tests = SOURCE / "tests" / "testthat"
    using = {
        p.stem.removeprefix("test-") for p in tests.glob("test-*.R") if "expect_snapshot" in p.read_text()
    }
    assert using == {p.stem for p in (tests / "_snaps").glob("*.md")}


@pytest.mark.slow
def test_no_name_is_defined_twice():
    """The later file of two would silently win."""
    defined = re.compile(r"^([\w.]+) <- (?!c\(\1, )", re.MULTILINE)
    names = Counter(n for p in (SOURCE / "R").glob("*.R") for n in defined.findall(p.read_text()))
    assert not [name for name, times in names.items() if times > 1]
