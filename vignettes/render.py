"""Run the vignettes and render them to HTML pages that stand by themselves.

    python vignettes/render.py [--to DIRECTORY] [--r-library DIRECTORY] [NAME ...]

Notebooks run in this Python. R Markdown runs in the R on the path, with this Python
behind the R package dpstats, which is installed from r_bridge/ into a library of its
own first (or is in the one given). No network is used. An error in any chunk is an
error here.

What R Markdown became, text and figures, stays in build/vignettes/ for the site,
under a name that changes with all that it was made from.
"""

import argparse
import hashlib
import html
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
R_PACKAGE = HERE.parent / "r_bridge"
KEPT = HERE.parent / "build" / "vignettes"
MADE_FROM = (
    "dpstats/**/*.py",
    "dpstats/**/*.gz",
    "r_bridge/NAMESPACE",
    "r_bridge/R/*.R",
    "benchmarks/**/*.csv",
)
"""What the pages in R show follows from these, beside their own text."""
SECONDS = 300
"""For each cell of a notebook, and for a whole R Markdown page."""


def sources():
    """The vignettes: a mapping from name to path, in order of the names."""
    return {
        path.stem: path for path in sorted([*HERE.glob("*.ipynb"), *HERE.glob("*.Rmd")])
    }


def render(path, to, library=None):
    """Render one vignette and return the path of the page."""
    page = _notebook(path) if path.suffix == ".ipynb" else _r_markdown(path, library)
    to.mkdir(parents=True, exist_ok=True)
    target = to / f"{path.stem}.html"
    target.write_text(_with_links(page, to), encoding="utf-8")
    return target


def install_r_package(library):
    """Install the R package dpstats from its source into a directory."""
    library.mkdir(parents=True, exist_ok=True)
    _run(
        [
            "R",
            "CMD",
            "INSTALL",
            "--no-docs",
            "--no-test-load",
            f"--library={library}",
            str(R_PACKAGE),
        ]
    )


def _notebook(path):
    import nbformat
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient
    from nbconvert import HTMLExporter
    from traitlets.config import Config

    class ThisPython(AsyncKernelManager):
        """A kernel in the Python that runs this script, whatever is installed."""

        def format_kernel_cmd(self, extra_arguments=None):
            return [sys.executable, *super().format_kernel_cmd(extra_arguments)[1:]]

    notebook = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": str(HERE)}}
    NotebookClient(
        notebook, timeout=SECONDS, kernel_manager_class=ThisPython, resources=where
    ).execute()
    hide = {"enabled": True, "remove_input_tags": {"hide-input"}}
    exporter = HTMLExporter(
        config=Config({"TagRemovePreprocessor": hide}),
        mathjax_url="",
        require_js_url="",
    )
    page, _ = exporter.from_notebook_node(
        notebook, {"metadata": {"name": _title(notebook, path)}}
    )
    return _with_descriptions(page, notebook)


def _with_descriptions(page, notebook):
    """The figures with the descriptions that their cells have as metadata."""
    alts = iter(
        cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "")
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if "image/png" in output.get("data", {})
    )
    missing = 'alt="No description has been provided for this image"'
    return re.sub(missing, lambda _: f'alt="{html.escape(next(alts))}"', page)


def _title(notebook, path):
    first = notebook.cells[0].source.splitlines()[0]
    return first.removeprefix("# ") if first.startswith("# ") else path.stem


def _r_markdown(path, library):
    code = (
        "a <- commandArgs(TRUE); "
        "rmarkdown::render(a[1], output_dir = a[2], intermediates_dir = a[2], "
        "clean = FALSE, quiet = TRUE, envir = new.env())"
    )
    to = kept(path)
    with tempfile.TemporaryDirectory() as folder:
        _run(["Rscript", "--vanilla", "-e", code, str(path), folder], library)
        if path.parent == HERE:
            _keep(Path(folder), path.stem, to)
        return (Path(folder) / f"{path.stem}.html").read_text(encoding="utf-8")


def kept(path):
    """Where the text and the figures of an R Markdown page are, once it has been
    rendered from the files as they are."""
    files = [path, *(file for p in MADE_FROM for file in HERE.parent.glob(p))]
    digest = hashlib.sha256()
    for file in [path, *sorted(set(files) - {path})]:
        digest.update(file.read_bytes())
    return KEPT / f"{path.stem}-{digest.hexdigest()[:16]}"


def _keep(folder, name, to):
    """Put `page.md` and its figures into a folder that is there whole or not at all."""
    KEPT.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(dir=KEPT))
    page = (folder / f"{name}.knit.md").read_text(encoding="utf-8")
    for figure in folder.glob(f"{name}_files/**/*.png"):
        page = page.replace(str(figure), f"{name}-{figure.name}")
        shutil.copy(figure, beside / f"{name}-{figure.name}")
    (beside / "page.md").write_text(page, encoding="utf-8")
    for old in KEPT.glob(f"{name}-*"):
        shutil.rmtree(old, ignore_errors=True)
    beside.rename(to)


def _run(command, library=None):
    """Run R, and show what it said if it fails."""
    environment = os.environ | {
        "LC_ALL": "C.UTF-8",
        "RETICULATE_PYTHON": sys.executable,
    }
    if library is not None:
        environment["R_LIBS"] = str(library)
    done = subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=SECONDS,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed:\n{done.stdout}\n{done.stderr}")


def _with_links(page, to):
    """Links between vignettes lead to pages, those to other files of the repository
    lead there from `to`."""

    def moved(link):
        target, mark, place = link.group(1).partition("#")
        if re.match(r"[a-z]+:", target) or not target:
            return link.group(0)
        if Path(target).suffix in (".ipynb", ".Rmd"):
            return f'href="{Path(target).stem}.html{mark}{place}"'
        return f'href="{os.path.relpath(HERE / target, to)}{mark}{place}"'

    return re.sub(r'href="([^"]*)"', moved, page)


def main():
    parser = argparse.ArgumentParser(
        description="Run the vignettes and render them to HTML."
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"any of {', '.join(sources())}; by default all",
    )
    parser.add_argument(
        "--to",
        type=Path,
        default=HERE / "rendered",
        metavar="DIRECTORY",
        help="where pages go",
    )
    parser.add_argument(
        "--r-library",
        type=Path,
        metavar="DIRECTORY",
        help="an R library with the package dpstats",
    )
    chosen = parser.parse_args()
    unknown = set(chosen.names) - set(sources())
    if unknown:
        parser.error(f"no vignette is named {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory() as folder:
        library = chosen.r_library
        for name in chosen.names or sources():
            path = sources()[name]
            if path.suffix == ".Rmd" and library is None:
                library = Path(folder)
                install_r_package(library)
            print(render(path, chosen.to.resolve(), library), flush=True)


if __name__ == "__main__":
    main()
