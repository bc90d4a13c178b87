"""The R package: built, installed, and its tests run with this Python. `make lint` checks it as R does."""

import re
import runpy
import shutil
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "r_bridge"
check = runpy.run_path(str(SOURCE.parent / "tools" / "check_r.py"))
environment, r = check["environment"], check["r"]

needs_r = pytest.mark.r(*check["PACKAGES"])


@pytest.mark.slow
@needs_r
def test_its_own_tests(r_library, tmp_path):
    """As ``R CMD check`` runs them: none fails, warns or is skipped."""
    shutil.copytree(SOURCE / "tests", tmp_path / "tests")
    done = subprocess.run(
        [shutil.which("Rscript"), "--vanilla", "testthat.R"],
        cwd=tmp_path / "tests",
        env=environment() | {"R_LIBS": str(r_library)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
    )
    assert done.returncode == 0, done.stdout[-6000:]
    counts = re.findall(r"\[ FAIL (\d+) \| WARN (\d+) \| SKIP (\d+) \| PASS (\d+) \]", done.stdout)
    assert counts, done.stdout[-3000:]
    failed, warned, skipped, passed = map(int, counts[-1])
    assert (failed, warned, skipped) == (0, 0, 0), done.stdout[-6000:]
    assert passed > 500


FINE = "* checking R files ... OK\n"
NEW = f"* checking CRAN incoming feasibility ... NOTE\nMaintainer: 'x'\n\nNew submission\n{FINE}"


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        (FINE, False),
        (NEW, False),
        (NEW.replace("New submission", "New submission\n\nA URL"), True),
        (NEW + "* checking Rd files ... [2s/2s] NOTE\n", True),
        (FINE.replace("OK", "WARNING"), True),
        (FINE.replace("OK", "[1s/1s] ERROR"), True),
    ],
)
def test_what_a_check_says(said, wrong):
    assert check["wrong"](said) is wrong


@pytest.mark.slow
@needs_r
def test_clean_session(r_library, tmp_path):
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
        env=environment() | {"R_LIBS": str(r_library)},
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
@needs_r
def test_dp_install(r_library, tmp_path):
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
            env=kept | {"R_LIBS": str(r_library), "HOME": str(tmp_path / "home")},
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


def test_snapshots_are_committed():
    """``R CMD check`` adds a missing snapshot with a warning; here it is missed."""
    tests = SOURCE / "tests" / "testthat"
    using = {
        p.stem.removeprefix("test-") for p in tests.glob("test-*.R") if "expect_snapshot" in p.read_text()
    }
    assert using == {p.stem for p in (tests / "_snaps").glob("*.md")}


def test_no_name_is_defined_twice():
    """The later file of two would silently win."""
    defined = re.compile(r"^([\w.]+) <- (?!c\(\1, )", re.MULTILINE)
    names = Counter(n for p in (SOURCE / "R").glob("*.R") for n in defined.findall(p.read_text()))
    assert not [name for name, times in names.items() if times > 1]
