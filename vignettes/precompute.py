"""Run the R pages and put them, with results, into the R package as its vignettes.

    python vignettes/precompute.py [NAME ...]

R packages are built and checked where there is no Python, so the package has its
vignettes with results in them: r_bridge/vignettes/ is made by this script, and not
edited. Each page names the digest of its source, by which the tests see that it is out
of date.
"""

import argparse
import hashlib
import re
import shutil
import tempfile
from pathlib import Path

import render

TO = render.R_PACKAGE / "vignettes"
HEADER = """---
title: "{title}"
output: rmarkdown::html_vignette
vignette: >
  %\\VignetteIndexEntry{{{title}}}
  %\\VignetteEngine{{knitr::rmarkdown}}
  %\\VignetteEncoding{{UTF-8}}
---

<!-- Made by vignettes/precompute.py from {source}, sha256 {digest}. Do not edit. -->
"""


def pages():
    """The pages for R: a mapping from the name in the R package to the source."""
    return {
        path.stem.removesuffix("_r"): path
        for path in sorted(render.HERE.glob("*_r.Rmd"))
    }


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def precompute(name, to, library):
    """Run one page and write it, with its figures, into a folder."""
    source = pages()[name]
    code = (
        "a <- commandArgs(TRUE); setwd(a[1]); "
        "knitr::opts_chunk$set(fig.path = paste0(a[3], '-'), error = FALSE); "
        "knitr::opts_knit$set(progress = FALSE); "
        "knitr::knit(a[2], 'page.md', quiet = TRUE, envir = new.env())"
    )
    with tempfile.TemporaryDirectory() as folder:
        render._run(
            ["Rscript", "--vanilla", "-e", code, folder, str(source), name], library
        )
        page = (Path(folder) / "page.md").read_text(encoding="utf-8")
        to.mkdir(parents=True, exist_ok=True)
        for old in to.glob(f"{name}-*.png"):
            old.unlink()
        for figure in Path(folder).glob(f"{name}-*.png"):
            shutil.copy(figure, to)
    front, body = re.fullmatch(r"---\n(.*?)\n---\n(.*)", page, re.DOTALL).groups()
    title = re.search(r'title: "(.*)"', front).group(1)
    header = HEADER.format(title=title, source=source.name, digest=digest(source))
    (to / f"{name}.Rmd").write_text(header + _linked(body), encoding="utf-8")


def _linked(text):
    """Links to the other pages of the package lead there; of those to other files
    the text remains."""

    def link(match):
        label, target = match.groups()
        stem = Path(target).stem.removesuffix("_r")
        if re.match(r"[a-z]+:|#", target) or target.endswith(".png"):
            return match.group(0)
        return f"[{label}]({stem}.html)" if stem in pages() else label

    return re.sub(r"(?<!!)\[([^\]]*)\]\(([^)]*)\)", link, text)


def main():
    parser = argparse.ArgumentParser(
        description="Put the R pages, with results, into the R package."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(pages()))
    chosen = parser.parse_args().names or list(pages())
    with tempfile.TemporaryDirectory() as folder:
        render.install_r_package(Path(folder))
        for name in chosen:
            precompute(name, TO, Path(folder))
            print(TO / f"{name}.Rmd", flush=True)


if __name__ == "__main__":
    main()
