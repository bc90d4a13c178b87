"""Every vignette is rendered from its source, whole; an error in any chunk fails."""

import functools
import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest

VIGNETTES = Path(__file__).parents[2] / "vignettes"

# what a page must show, after its markup is taken out: text of its tables, and the number of its figures
EXPECTED = {
    "first_regression_python": (
        2,
        ["Private OLS (differentially private)", "PROTECTS NOBODY", "Privacy ledger"],
    ),
    "medians": (4, ["Median (differentially private)", "refused", "Tukey median (differentially private)"]),
    "privacy": (
        2,
        ["pure; neighbours: one record added or removed", "broken on purpose", "noise.laplace", "center(x)"],
    ),
    "first_regression_r": (
        4,
        ["Private OLS (differentially private)", "PROTECTS NOBODY", "'residuals' has one entry"],
    ),
    "odds_and_rates_python": (
        1,
        ["Logistic regression (differentially private)", "exp(coef)", "n.d.", "children per year"],
    ),
    "odds_and_rates_r": (
        1,
        [
            "Logistic regression (differentially private)",
            "exp(coef)",
            "Not determined: ",
            "offset(log(yrs_married))",
        ],
    ),
    "panels_python": (
        1,
        [
            "Units (noisy)",
            "all rows of one 'patient' added or removed",
            "about single records",
            "12.0 in place of",
        ],
    ),
    "panels_r": (
        1,
        ["units (a noisy count)", "all rows of one 'patient' added or removed", "about single records"],
    ),
    "study_python": (
        2,
        [
            "Description (differentially private)",
            "Powers of the prediction (RESET)",
            "Wald tests of terms",
            "Privacy ledger",
            "url_slug: ",
        ],
    ),
    "tracts": (2, ["Groups by tract: 64", "root mean squared error", "dp_medsweep, no bounds"]),
    "choosing": (4, ["R-squared at eps = 1.1", "worst single coefficient", "select = 5"]),
}
PAGES = {f"{name}.html" for name in EXPECTED}
R_PACKAGES = ("rmarkdown", "reticulate", "ggplot2", "broom")


@functools.cache
def render_module():
    spec = importlib.util.spec_from_file_location("vignettes_render", VIGNETTES / "render.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def precompute_module():
    sys.modules["render"] = render_module()
    spec = importlib.util.spec_from_file_location("vignettes_precompute", VIGNETTES / "precompute.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["first_regression", "odds_and_rates", "panels"])
def test_vignettes_of_the_r_package_are_up_to_date(name):
    """They are made by ``vignettes/precompute.py`` from the pages as they are, and need no Python."""
    module = precompute_module()
    assert sorted(module.pages()) == sorted(path.stem for path in module.TO.glob("*.Rmd"))
    page = (module.TO / f"{name}.Rmd").read_text(encoding="utf-8")
    assert f"sha256 {module.digest(module.pages()[name])}." in page, "run python vignettes/precompute.py"
    assert not re.search(r"```\s*\{r|`r ", page), "a chunk that would run"
    assert not re.search(r"/(home|tmp|work|root)/", page), "a path of this machine"
    for figure in re.findall(r'<img src="([^"]+)"', page):
        assert (module.TO / figure).exists(), figure


def text_of(page):
    """The visible text of an HTML page, on one line."""
    page = re.sub(r"(?s)<(script|style)\b.*?</\1>", " ", page)
    page = re.sub(r"<[^>]+>", "", page)
    for entity, character in (("&lt;", "<"), ("&gt;", ">"), ("&#39;", "'"), ("&quot;", '"'), ("&amp;", "&")):
        page = page.replace(entity, character)
    return " ".join(page.split())


def check_page(name, path):
    figures, phrases = EXPECTED[name]
    page = path.read_text(encoding="utf-8")
    images = re.findall(r'src="data:image/png;base64,([^"]+)"', page)
    assert len([image for image in images if len(image) > 5_000]) >= figures
    assert not re.search(r'<img[^>]*alt="(No description[^"]*)?"', page), "a figure without a description"
    text = text_of(page)
    for phrase in phrases:
        assert phrase in text
    assert "Traceback (most recent call last)" not in text
    assert not re.search(r"Error (in |: |message)|\bWarning:|Warning message", text)
    assert not re.search(r"/(home|tmp|work|root)/", text), "a path of this machine"
    for link in re.findall(r'href="([^"#]+)', page):
        if not re.match(r"[a-z]+:", link):
            assert link in PAGES or (path.parent / link).exists(), link


def names(suffix):
    return sorted(path.stem for path in VIGNETTES.glob(f"*{suffix}"))


def test_every_vignette_is_tested_and_listed():
    found = names(".ipynb") + names(".Rmd")
    assert sorted(found) == sorted(EXPECTED) == sorted(render_module().sources())
    index = (VIGNETTES / "README.md").read_text()
    for path in render_module().sources().values():
        assert f"({path.name})" in index


@pytest.mark.slow
@pytest.mark.parametrize("name", names(".ipynb"))
def test_notebook(name, tmp_path):
    page = render_module().render(VIGNETTES / f"{name}.ipynb", tmp_path)
    check_page(name, page)


@pytest.mark.slow
@pytest.mark.r(*R_PACKAGES)
@pytest.mark.parametrize("name", names(".Rmd"))
def test_r_markdown(name, tmp_path, r_library):
    page = render_module().render(VIGNETTES / f"{name}.Rmd", tmp_path, r_library)
    check_page(name, page)
    # and what the site shows of it
    kept = render_module().kept(VIGNETTES / f"{name}.Rmd")
    text = (kept / "page.md").read_text(encoding="utf-8")
    assert len(list(kept.glob("*.png"))) >= EXPECTED[name][0] and str(kept) not in text
    assert not re.search(r"/(home|tmp|work|root)/", text), "a path of this machine"


@pytest.mark.parametrize("name", names(".ipynb"))
def test_notebooks_are_committed_without_outputs(name):
    for cell in json.loads((VIGNETTES / f"{name}.ipynb").read_text())["cells"]:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@pytest.mark.slow
def test_a_failing_chunk_fails(tmp_path, monkeypatch):
    """The test of the test: pages with one wrong chunk are not rendered."""
    import nbformat
    from nbclient.exceptions import CellExecutionError

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0", id="a")])
    nbformat.write(notebook, tmp_path / "wrong.ipynb")
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        render_module().render(tmp_path / "wrong.ipynb", tmp_path)
    assert not (tmp_path / "wrong.html").exists()


@pytest.mark.slow
@pytest.mark.r("rmarkdown")
def test_a_failing_chunk_of_r_fails(tmp_path):
    (tmp_path / "wrong.Rmd").write_text("---\ntitle: x\n---\n\n```{r}\nstop('this chunk is wrong')\n```\n")
    with pytest.raises(RuntimeError, match="this chunk is wrong"):
        render_module().render(tmp_path / "wrong.Rmd", tmp_path)
    assert not (tmp_path / "wrong.html").exists()
