"""Vignettes become pages: one of each language here, and all of them when the site is built."""

import functools
import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest

VIGNETTES = Path(__file__).parents[2] / "vignettes"

R_PACKAGES = ("rmarkdown", "reticulate", "ggplot2", "broom")


def loaded(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def render_module():
    return loaded("vignettes_render", VIGNETTES / "render.py")


@functools.cache
def precompute_module():
    sys.modules["render"] = render_module()
    return loaded("vignettes_precompute", VIGNETTES / "precompute.py")


@functools.cache
def shown_module():
    return loaded("site_shown", VIGNETTES.parent / "docs" / "site" / "shown.py")


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


def check_page(path):
    """A page that stands by itself has its figures within, and leads to what is there."""
    assert list(shown_module().missing(path)) == []
    page = path.read_text(encoding="utf-8")
    images = re.findall(r'src="data:image/png;base64,([^"]+)"', page)
    assert any(len(image) > 5_000 for image in images)
    others = {f"{name}.html" for name in shown_module().EXPECTED}
    for link in re.findall(r'href="([^"#]+)', page):
        if not re.match(r"[a-z]+:", link):
            assert link in others or (path.parent / link).exists(), link


def names(suffix):
    return sorted(path.stem for path in VIGNETTES.glob(f"*{suffix}"))


def test_every_vignette_is_tested_and_listed():
    found = names(".ipynb") + names(".Rmd")
    assert sorted(found) == sorted(shown_module().EXPECTED) == sorted(render_module().sources())
    index = (VIGNETTES / "README.md").read_text()
    for path in render_module().sources().values():
        assert f"({path.name})" in index


@pytest.mark.slow
def test_a_notebook_becomes_a_page(tmp_path):
    check_page(render_module().render(VIGNETTES / "panels_python.ipynb", tmp_path))


@pytest.mark.slow
@pytest.mark.r(*R_PACKAGES)
def test_r_markdown_becomes_a_page(tmp_path, r_library):
    source = VIGNETTES / "panels_r.Rmd"
    check_page(render_module().render(source, tmp_path, r_library))
    # and what the site shows of it
    kept = render_module().kept(source)
    text = (kept / "page.md").read_text(encoding="utf-8")
    assert list(kept.glob("*.png")) and str(kept) not in text
    assert not re.search(r"/(home|tmp|work|root)/", text), "a path of this machine"


def test_a_page_that_shows_less_is_told(tmp_path):
    page = tmp_path / "panels_r.html"
    (tmp_path / "_images").mkdir()
    (tmp_path / "_images" / "a.png").write_bytes(bytes(6_000))
    (tmp_path / "_images" / "b.png").write_bytes(bytes(600))
    figure = '<img alt="Intervals" src="_images/a.png" />'
    phrases = "; ".join(shown_module().EXPECTED["panels_r"][1])

    def told(text):
        page.write_text(text)
        return [problem.removeprefix("panels_r: ") for problem in shown_module().missing(page)]

    assert told(figure + phrases) == []
    assert told(phrases + '<img alt="logo" src="logo.png" />') == ["0 of 1 figures"]
    for alt in ("", "_images/a.png", "No description has been provided for this image"):
        undescribed = figure.replace("Intervals", alt)
        assert told(figure + undescribed + phrases) == ["a figure without a description"]
    assert told(figure.replace("a.png", "b.png") + phrases) == ["nothing is in _images/b.png"]
    assert told(figure.replace("a.png", "c.png") + phrases) == ["nothing is in _images/c.png"]
    assert told(figure + phrases.replace("about single records", "")) == ["no 'about single records'"]
    assert told(figure + phrases + " Warning message: x") == ["'Warning message'"]
    assert told(figure + phrases + " in /tmp/x") == ["'/tmp/'"]


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
