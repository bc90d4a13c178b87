"""What a script of the gallery must print and draw; and R's help becomes pages of the site."""

import importlib.util
from pathlib import Path

import pytest

import dpstats

SITE = Path(dpstats.__file__).parents[1] / "docs" / "site"
pytestmark = pytest.mark.skipif(not SITE.is_dir(), reason="the pages are not installed with the package")
SCRIPTS = sorted((SITE.parent / "gallery").glob("*.py"))


def module(name):
    spec = importlib.util.spec_from_file_location(f"site_{name}", SITE / f"{name}.py")
    found = importlib.util.module_from_spec(spec)
    import sys

    sys.modules[spec.name] = found
    spec.loader.exec_module(found)
    return found


@pytest.mark.slow
def test_a_script_prints_and_draws():
    """The others are run when the site is built."""
    pytest.importorskip("matplotlib")
    shown = module("gallery").run(SCRIPTS[0])
    assert shown.title and shown.words and len(shown.figure) > 5_000
    assert "![" in shown.page("x.png") and shown.printed in shown.page("x.png")


def test_all_scripts_set_seeds_or_use_no_private_data():
    assert len(SCRIPTS) >= 8
    for script in SCRIPTS:
        code = script.read_text(encoding="utf-8")
        assert "seed=" in code or "dpstats.plan(" in code


def test_a_script_without_a_figure_is_an_error(tmp_path):
    pytest.importorskip("matplotlib")
    (tmp_path / "11_wrong.py").write_text('"""Title\n\nWords.\n"""\nprint(1)\n')
    with pytest.raises(ValueError, match="0 figures"):
        module("gallery").run(tmp_path / "11_wrong.py")


@pytest.mark.parametrize(
    ("words", "printed", "wrong"),
    [
        ("", "1", "no title"),
        ("Title\n\nWords.\n", "", "nothing"),
        ("Title\n\nWords.\n", "in /tmp/x", "a path"),
    ],
)
def test_a_script_that_says_too_little_or_too_much_is_an_error(tmp_path, words, printed, wrong):
    pytest.importorskip("matplotlib")
    draw = "from matplotlib import pyplot as plt\nplt.plot([1])\n"
    (tmp_path / "11_wrong.py").write_text(f'"""{words}"""\n{draw}print({printed!r})\n')
    with pytest.raises(ValueError, match=wrong):
        module("gallery").run(tmp_path / "11_wrong.py")


HELP = """<html><body><div class="container">
<h2>Title &amp; more</h2>
<h3>Usage</h3>
<pre>f(x)</pre>
<h3>Arguments</h3>
<table><tr><td><a href="../../stats/html/lm.html">lm</a> <a href="dp_ols.html">ols</a></td></tr></table>
<hr /><div>index</div>
</div></body></html>"""


def test_a_help_page_keeps_its_text_and_its_own_links():
    title, page = module("r_help").page(HELP)
    assert title == "Title & more" and page.startswith("# Title & more\n")
    assert "## Usage" in page and 'href="dp_ols.html"' in page and "lm" in page
    assert "stats/html" not in page and "index" not in page


def test_without_r_the_section_says_so(tmp_path, monkeypatch):
    help_pages = module("r_help")
    monkeypatch.setattr(help_pages.shutil, "which", lambda name: None)
    help_pages.write(tmp_path)
    assert "built without" in (tmp_path / "README.md").read_text()


@pytest.mark.r
@pytest.mark.slow
def test_every_help_page_is_converted():
    help_pages = module("r_help")
    assert {path.stem for path in help_pages.MAN.glob("*.Rd")} == set(help_pages.converted())


KNITTED = """---
title: "A page, in R"
output: html
---

Words, and [another](tracts.Rmd).

```r
plot(1)
```

```
## a table
```

<img src="x-plot-1.png" alt="A plot" width="100%" />

Table: Its caption

|a |
|:-|
"""


def test_what_knitr_made_is_markdown_of_the_site():
    page = module("r_vignettes").page(KNITTED)
    assert page.startswith("# A page, in R\n")
    assert "```r\nplot(1)\n```\n\n```text\n## a table\n```\n" in page
    assert "![A plot](x-plot-1.png)" in page and "*Its caption*" in page and "<img" not in page


def test_links_to_vignettes_lead_to_their_pages(tmp_path):
    (tmp_path / "a.md").write_text("[x](tracts.Rmd#place) [y](../vignettes/choosing.Rmd) [z](nothing.Rmd)")
    module("r_vignettes").linked(tmp_path)
    assert (tmp_path / "a.md").read_text() == (
        "[x](tracts.md#place) [y](../vignettes/choosing.md) [z](nothing.Rmd)"
    )


def test_without_r_a_vignette_says_so_unless_it_is_kept(tmp_path, monkeypatch):
    pages = module("r_vignettes")
    monkeypatch.setattr(pages.render, "KEPT", tmp_path / "kept")
    monkeypatch.setattr(pages.shutil, "which", lambda name: None)
    monkeypatch.delenv("DPSTATS_REQUIRE_R", raising=False)
    whole = pages.render.kept(pages.VIGNETTES / "tracts.Rmd")
    whole.mkdir(parents=True)
    (whole / "page.md").write_text(KNITTED)
    pages.write(tmp_path / "to")
    assert "plot(1)" in (tmp_path / "to" / "tracts.md").read_text()
    assert "built without" in (tmp_path / "to" / "choosing.md").read_text()
    monkeypatch.setenv("DPSTATS_REQUIRE_R", "1")
    with pytest.raises(RuntimeError, match="vignettes need R with"):
        pages.write(tmp_path / "to")
