"""The versions that the tests are run with: `nox` for all, `nox -s lowest` for one."""

import re
import tomllib
from pathlib import Path

import nox

nox.options.default_venv_backend = "venv"
nox.options.error_on_missing_interpreters = False

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PROJECT = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
# those that need no other programs; what they import and is not here is skipped by them
TOOLS = ("pytest>=8", "hypothesis>=6.100", "pyyaml", "fsspec", "duckdb", "polars")
FOLDERS = ("contract", "data", "formula", "estimation", "results")


def least(requirements: list[str]) -> list[str]:
    """The lowest versions that are allowed, as exact ones."""
    return [re.sub(r">=([\d.]+).*", r"==\1", requirement) for requirement in requirements]


def run(session: nox.Session, *constraints: str) -> None:
    session.install("-e", ".[arrow,plot,progress]", *constraints, *TOOLS)
    tests = [f"tests/{folder}" for folder in FOLDERS]
    tests += ["tests/mechanisms/test_deep_line.py", *session.posargs]
    session.run("python", "-m", "pytest", "-q", "-m", "not slow", *tests)


@nox.session(python=PYTHONS)
def newest(session: nox.Session) -> None:
    run(session)


@nox.session(python=PYTHONS[:3])
def pandas2(session: nox.Session) -> None:
    run(session, "pandas<3")


@nox.session(python=PYTHONS[0])
def lowest(session: nox.Session) -> None:
    """Of NumPy 1.26 there are no files for later Pythons than 3.12."""
    extras = PROJECT["optional-dependencies"]
    run(session, *least([*PROJECT["dependencies"], *extras["arrow"], *extras["plot"]]))
