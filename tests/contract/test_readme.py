"""Links lead somewhere; snippets are the business of test_pages.py, and numbers of test_numbers.py."""

import re
from pathlib import Path

import pytest

import dpstats

ROOT = Path(dpstats.__file__).parents[1]
README = ROOT / "README.md"
pytestmark = pytest.mark.skipif(not README.is_file(), reason="the README is not installed with the package")


def test_links_lead_somewhere():
    seen = 0
    # the first page of the site lies beside the README when it is built, which looks at its links
    pages = [page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "site"]
    for page in [README, *pages]:
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
            seen += 1
    assert seen > 50
