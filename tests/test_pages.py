"""Every snippet of the pages runs, and what stands below it has the shape of what it prints.

Python of a page runs in one namespace, in order: sessions (``>>>``) as doctests, the rest as code. R of all
pages runs in one process. Of shell lines the targets, files and extras exist. What runs elsewhere is counted
in :data:`ELSEWHERE`.
"""

import contextlib
import doctest
import io
import os
import re
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

import dpstats

ROOT = Path(dpstats.__file__).parents[1]
pytestmark = pytest.mark.skipif(not (ROOT / "README.md").is_file(), reason="the pages are not installed")

SLOW, CLUSTERS = {"docs/plan.md"}, "docs/scale.md"
# page, language: how many snippets are not run here, and what runs them
ELSEWHERE = {
    ("CONTRIBUTING.md", "python"): (3, "tests/contract/test_contributing.py"),
    ("CONTRIBUTING.md", "markdown"): (1, "tests/contract/test_contributing.py"),
}
FILES = r"(?<![\w/~$.])((?:benchmarks|r_bridge|tests|docs|examples|tools)\b[\w/.]*)"
R_PACKAGES = ("reticulate", "generics", "ggplot2", "broom")


class Snippet(NamedTuple):
    language: str
    code: str
    output: str | None


def pages():
    found = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]
    for folder in ("docs", "r_bridge", "benchmarks", "vignettes", "tests"):
        found += [path for path in sorted((ROOT / folder).rglob("*.md")) if "_snaps" not in path.parts]
    found += sorted((ROOT / "vignettes").glob("*.Rmd"))  # their chunks are run by tests/vignettes
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in found}


def snippets(text):
    """The fenced blocks of a page; one of text directly below another is its output."""
    found = []
    for language, code in re.findall(r"^```([^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if language.startswith("{"):
            continue  # a chunk of a vignette
        if language == "text" and found and found[-1].output is None:
            found[-1] = found[-1]._replace(output=code)
        else:
            found.append(Snippet(language, code, None))
    return found


SNIPPETS = {page: found for page, text in (pages() if (ROOT / "README.md").is_file() else {}).items()
            if (found := snippets(text))}  # fmt: skip


def of(language):
    return {page: [s for s in found if s.language == language] for page, found in SNIPPETS.items()
            if any(s.language == language for s in found) and (page, language) not in ELSEWHERE}  # fmt: skip


def words(text):
    """The words of a printed table, with # for every number: what does not change from release to release."""
    text = re.sub(r"<\s*(?=\d)", "", text)
    text = re.sub(r"(?<![\w.\[-])[-+]?\d[\d,]*(\.\d+)?(e[-+]?\d+)?(?![\w\]])", "#", text)
    return re.sub(r"#\]", "#]", re.sub(r"[=-]{3,}", "", text)).split()


def has_shape(printed, shown):
    """Whether the words of an output are those that a page shows, up to its dots or its first note."""
    wanted = words(re.split(r"^(?:\.\.\.|Note:|\[1\])", shown, flags=re.MULTILINE)[0])
    got = words(printed)
    starts = [i for i in range(len(got)) if got[i : i + 3] == wanted[:3]]
    return len(wanted) > 10 and any(got[i : i + len(wanted)] == wanted for i in starts)


def test_the_kinds_of_snippets_are_known_and_those_that_do_not_run_are_counted():
    assert {s.language for found in SNIPPETS.values() for s in found} <= {"python", "r", "sh", "markdown"}
    for (page, language), (number, _) in ELSEWHERE.items():
        assert sum(s.language == language for s in SNIPPETS[page]) == number
    markdown = {page for page, found in SNIPPETS.items() if any(s.language == "markdown" for s in found)}
    assert {(page, "markdown") for page in markdown} <= ELSEWHERE.keys()
    assert sum(map(len, of("python").values())) > 20 and sum(map(len, of("r").values())) >= 3


def given(page):
    """What a page says that the reader has."""
    rng = np.random.default_rng(0)
    if page == "docs/depth.md":
        X = rng.standard_normal((60, 2))
        return {"data": X, "X": X, "x": X[:, 0], "y": X[:, 0] + rng.standard_normal(60)}
    if page == "vignettes/choosing.Rmd":
        return {"dpstats": dpstats, "diamonds": dpstats.datasets.load_diamonds()}
    if page == "vignettes/tracts.Rmd":
        tract = pd.Categorical(np.repeat(["a", "b"], 3_000))
        parent = rng.uniform(size=6_000)
        child = np.clip(0.3 + 0.4 * parent + 0.1 * rng.standard_normal(6_000), 0, 1)
        return {
            "dpstats": dpstats,
            "families": pd.DataFrame({"tract": tract, "parent": parent, "child": child}),
        }
    return {}


def run(page, found, names):
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    tried = 0
    for number, snippet in enumerate(found, 1):
        if ">>>" in snippet.code:
            test = doctest.DocTestParser().get_doctest(snippet.code, names, f"{page}, {number}", page, 0)
            report = io.StringIO()
            failed, n = doctest.DocTestRunner(optionflags=flags).run(
                test, out=report.write, clear_globs=False
            )
            assert not failed, report.getvalue()
            names, tried = test.globs, tried + n
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(snippet.code, f"{page}, snippet {number}", "exec"), names)
        tried += 1
        if snippet.output is not None:
            assert has_shape(printed.getvalue(), snippet.output), printed.getvalue()
    return tried


def marked(page):
    return pytest.param(page, marks=pytest.mark.slow if page in SLOW else ())


@pytest.mark.parametrize("page", [marked(page) for page in of("python") if page != CLUSTERS])
@pytest.mark.slow
def test_python(page, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(tmp_path)
    assert run(page, of("python")[page], given(page))


@pytest.mark.slow
def test_python_of_a_cluster(tmp_path):
    pytest.importorskip("distributed")
    rng = np.random.default_rng(0)
    age, stay = rng.uniform(20, 80, 4_000), rng.exponential(5, 4_000)
    cost = 10 * age + 300 * stay + rng.normal(0, 200, 4_000)
    (tmp_path / "visits").mkdir()
    visits = pd.DataFrame({"age": age, "stay": stay, "cost": cost})
    visits.to_parquet(tmp_path / "visits" / "part.parquet")
    dask, _ = of("python")[CLUSTERS]
    # workers import the script again
    body = textwrap.indent(dask.code.rstrip() + "\nprint('done')\n", "    ")
    (tmp_path / "script.py").write_text("if __name__ == '__main__':\n" + body)
    # without R's: where R runs in the process of the tests, its libraries are found before those of Python
    environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True,
                          timeout=300, env=environment | {"PYTHONPATH": str(ROOT)})  # fmt: skip
    assert "done" in done.stdout, done.stderr[-3000:]


def test_python_of_spark_is_a_call_that_other_tests_make():
    """A session of Spark takes too long for a page: tests/engines/test_spark.py has one for all."""
    _, spark = of("python")[CLUSTERS]
    assert "dpstats.ols(" in spark.code and "spark.read.parquet" in spark.code


def test_a_table_of_another_shape_is_seen():
    """The test of the test."""
    shown = (
        "Rows: 53,904\n  coef  std err\nIntercept  -6737  136 <0.001\n"
        "x[T.VS2] 1.0 2e-16 [0.1, n.d.\n95% of it holds\n...\n"
    )
    other = shown.replace("53,904", "12").replace("-6737", "3.5e-9").replace("...", "and more")
    assert has_shape("before\n" + other, shown)
    assert not has_shape(other.replace("Intercept", "(Intercept)"), shown)
    assert not has_shape(other.replace("std err", "se"), shown)
    assert not has_shape(other.replace("  136", ""), shown)


@pytest.mark.parametrize(
    "path",
    [p for p in ROOT.rglob("*.md") if not {".venv", "build", "_snaps"} & set(p.relative_to(ROOT).parts)],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_rows_of_tables_have_as_many_cells_as_their_heads(path):
    """A bar within code is written ``\\|``, or it ends the cell."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        head, *rows = [len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()]
        assert [row for row, bars in zip(table.splitlines()[1:], rows, strict=True) if bars != head] == []


def test_shell():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    with open(ROOT / "pyproject.toml", "rb") as file:
        extras = set(tomllib.load(file)["project"]["optional-dependencies"])
    seen = 0
    for page, found in of("sh").items():
        for line in "".join(s.code for s in found).splitlines():
            line = line.partition("#")[0]
            for target in re.findall(r"\bmake ([\w-]+)", line):
                assert target in targets, f"{page}: make {target}"
                seen += 1
            for names in re.findall(r"(?:\.|dpstats)\[([\w,]+)\]", line):
                assert set(names.split(",")) <= extras, f"{page}: {names}"
                seen += 1
            for path in re.findall(FILES, line):
                assert (ROOT / path).exists(), f"{page}: {path}"
                seen += 1
    assert seen > 10


@pytest.mark.slow
@pytest.mark.r(*R_PACKAGES)
def test_r(tmp_path, r_library):
    found = [(page, number, s) for page, several in of("r").items() for number, s in enumerate(several)]
    lines = ["diamonds <- ggplot2::diamonds", "library(dpstats)"]
    for page, number, snippet in found:
        lines += [f'cat("\\nSNIPPET {page} {number}\\n")', snippet.code]
    (tmp_path / "script.R").write_text("\n".join(lines))
    environment = {"R_LIBS": str(r_library), "RETICULATE_PYTHON": sys.executable,
                   "PYTHONPATH": str(ROOT), "DPSTATS_DEBUG": "0"}  # fmt: skip
    done = subprocess.run(["Rscript", "--vanilla", "script.R"], cwd=tmp_path, capture_output=True, text=True,
                          timeout=300, env=os.environ | environment)  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    printed = done.stdout.split("\nSNIPPET ")[1:]
    assert len(printed) == len(found)
    for (page, _, snippet), output in zip(found, printed, strict=True):
        if snippet.output is not None:
            assert has_shape(output, snippet.output), f"{page}:\n{output}"
