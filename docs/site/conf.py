"""Sphinx's configuration: `make docs` builds the site from the pages as they are in the repository."""

import os
import re
from typing import Any

import dpstats

project, author, copyright = "dpstats", "the authors of dpstats", "the authors of dpstats, Apache-2.0"
version = release = dpstats.__version__

extensions = ["sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.mathjax", "numpydoc", "myst_nb"]
source_suffix = {".rst": "restructuredtext", ".md": "myst-nb", ".ipynb": "myst-nb"}
exclude_patterns = ["_build", "docs/site", "**/rendered", "templates"]

myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath"]
# notebooks run when the site is built, with the style of the vignettes
nb_execution_mode = os.environ.get("DPSTATS_DOCS_RUN", "cache")
nb_execution_cache_path = os.environ.get("DPSTATS_DOCS_CACHE", "")
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_merge_streams = True

autosummary_generate = True
# with methods and their examples in full: autosummary looks for the template by this name
templates_path = ["templates"]
autodoc_typehints = "none"
numpydoc_show_class_members = False
# equations are read as they stand
math_number_all = False
# quotes of code are to be copied; dashes and dots may be set
smartquotes_action = "De"

html_theme = "pydata_sphinx_theme"
html_title = "dpstats"
html_show_sourcelink = False
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_sidebars = {"index": [], "README": []}
html_theme_options = {
    "header_links_before_dropdown": 7,
    "show_nav_level": 1,
    "navigation_with_keys": False,
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}


def linked(_app: Any, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    """Pages that docstrings name, as links."""
    lines[:] = [re.sub(r"``(docs/[\w/]+)\.md``", r":doc:`\1.md </\1>`", line) for line in lines]


def setup(app: Any) -> None:
    # before numpydoc, which takes the lines apart
    app.connect("autodoc-process-docstring", linked, priority=400)
