"""The R Markdown vignettes as pages of the site, as `vignettes/render.py` ran them."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

VIGNETTES = Path(__file__).resolve().parents[2] / "vignettes"
sys.path.insert(0, str(VIGNETTES))

import render  # noqa: E402

NEEDED = ("rmarkdown", "reticulate", "generics", "broom", "ggplot2")
WITHOUT = (
    "This page is run when the site is built where R is installed, with rmarkdown, reticulate, broom and "
    "ggplot2; this site was built without. Where a page of the same name is in Python, it shows the same.\n"
)


def page(text: str) -> str:
    """What knitr made, in the Markdown of the site: with a title, figures, and output that is no code."""
    front, _, body = text.removeprefix("---\n").partition("\n---\n")
    found = re.search(r'^title: "(.*)"$', front, flags=re.M)
    if found is None:
        raise ValueError("a page without a title")
    body = re.sub(r'<img src="([^"]+)" alt="([^"]*)"[^>]*>', r"![\2](\1)", body)
    body = re.sub(r"^Table: (.*)$", r"*\1*", body, flags=re.M)
    body = body.replace("](../benchmarks)", "](../benchmarks/README.md)")
    lines, open_block = [], False
    for line in body.split("\n"):
        if line.startswith("```"):
            if line == "```" and not open_block:
                line = "```text"
            open_block = not open_block
        lines.append(line)
    return f"# {found[1]}\n" + "\n".join(lines)


def can_run() -> bool:
    """Whether there is an R that has what the pages need."""
    rscript = shutil.which("Rscript")
    wanted = ", ".join(f"'{name}'" for name in NEEDED)
    code = f"quit(status = !all(vapply(c({wanted}), requireNamespace, NA, quietly = TRUE)))"
    return rscript is not None and subprocess.run([rscript, "--vanilla", "-e", code]).returncode == 0


def write(to: Path) -> None:
    """A page for each vignette in R, beside the notebooks. What is kept of an earlier run is used."""
    to.mkdir(parents=True, exist_ok=True)
    sources = sorted(VIGNETTES.glob("*.Rmd"))
    missing = [path for path in sources if not render.kept(path).is_dir()]
    runs = not missing or can_run()
    if not runs and os.environ.get("DPSTATS_REQUIRE_R") == "1":
        raise RuntimeError(f"vignettes need R with {', '.join(NEEDED)}")
    if missing and runs:
        with tempfile.TemporaryDirectory() as folder:
            library = Path(folder) / "library"
            render.install_r_package(library)
            for path in missing:
                render.render(path, Path(folder) / "pages", library)
    for path in sources:
        kept = render.kept(path)
        if kept.is_dir():
            for figure in kept.glob("*.png"):
                shutil.copy(figure, to)
            written = page((kept / "page.md").read_text(encoding="utf-8"))
        else:
            title = re.search(r'^title: "(.*)"$', path.read_text(encoding="utf-8"), flags=re.M)
            written = f"# {title[1] if title else path.stem}\n\n{WITHOUT}"
        (to / f"{path.stem}.md").write_text(written, encoding="utf-8")


def run(site: Path) -> list[Path]:
    """The pages of the site of the vignettes that were run: notebooks, and R Markdown where there is R."""
    names = [p.stem for p in VIGNETTES.glob("*.ipynb")]
    names += [p.stem for p in VIGNETTES.glob("*.Rmd") if render.kept(p).is_dir()]
    return [site / f"{name}.html" for name in sorted(names)]


def linked(folder: Path) -> None:
    """Links to the sources of vignettes lead to their pages."""
    names = "|".join(path.stem for path in VIGNETTES.glob("*.Rmd"))
    for path in [*folder.rglob("*.md"), *folder.rglob("*.ipynb")]:
        text = path.read_text(encoding="utf-8")
        moved = re.sub(rf"\b({names})\.Rmd(?=[)#])", r"\1.md", text)
        if moved != text:
            path.write_text(moved, encoding="utf-8")
