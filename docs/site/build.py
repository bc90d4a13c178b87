"""Build the site: python docs/site/build.py [DIRECTORY]; by default build/site.

The pages are copied into one tree, so that links lead from one to the other as they do in the repository; the
reference is made from the list of public names. A warning is an error, and so are a broken link and a
vignette that shows less than it should. Where DPSTATS_REQUIRE_R is 1, so is an R that lacks what they need.
"""

import hashlib
import inspect
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import gallery
import r_help
import r_vignettes
import shown

import dpstats

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGES = ("*.md", "docs/**/*.md", "docs/figures/*", "benchmarks/**/*.md", "benchmarks/**/*.csv",
         "benchmarks/**/*.png", "benchmarks/**/*.py", "benchmarks/**/*.R", "vignettes/*",
         "r_bridge/README.md", "tests/mutants/README.md")  # fmt: skip
SECTIONS = {
    "Guide": ("docs/install", "docs/choosing", "docs/formulas", "docs/results", "docs/habits",
              "docs/not_supported", "docs/plan", "docs/selection", "docs/scale", "docs/depth"),
    "Evidence": ("docs/paper", "docs/privacy/README", "docs/benchmarks", "Studies <benchmarks/README>",
                 "tests/mutants/README"),
    "Project": ("CHANGELOG", "CONTRIBUTING", "SECURITY"),
}  # fmt: skip
GROUPS = {
    "Regression": "dpstats.regression",
    "Location": "dpstats.location",
    "Selection": "dpstats.selection",
    "Before and after the fit": "dpstats.explore",
    "Budgets and records": "dpstats.privacy",
    "Results": "dpstats.results",
    "Reading": "dpstats.estimation",
    "Data": "dpstats.datasets",
    "Errors": "dpstats.errors",
}
CLASSES = {
    "Selection": ("selection.features.Selection",),
    "Before and after the fit": (
        "explore.plan.Plan",
        "explore.description.Description",
        "explore.diagnosis.LinearDiagnosis",
        "explore.diagnosis.LogitDiagnosis",
        "explore.diagnosis.CountDiagnosis",
    ),
    "Budgets and records": ("privacy.statement.Statement",),
    "Results": (
        "results.results.Results",
        "results.glm.GLMResults",
        "results.grouped.GroupedResults",
        "results.prediction.Prediction",
        "results.terms.TermTests",
        "results.hypotheses.HetTest",
        "results.registry.Deployment",
        "_text.Summary",
    ),
    "Data": ("datasets.load_diamonds", "datasets.load_fit"),
}
"""What functions and methods give back, and what is not a public name of the package itself."""


def copied(to: Path) -> None:
    """All pages, and what they link to, in their places."""
    for pattern in PAGES:
        for path in ROOT.glob(pattern):
            if path.is_file() and not {"rendered", ".venv", "build"} & set(path.relative_to(ROOT).parts):
                target = to / path.relative_to(ROOT)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, target)
    for name in ("conf.py", "index.md", "site.css", "templates/autosummary/class.rst"):
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(HERE / name, to / name)
    shutil.rmtree(to / "docs" / "site", ignore_errors=True)
    gallery.write(to / "docs" / "gallery")
    r_help.write(to / "r_help")
    r_vignettes.write(to / "vignettes")
    for title, pages in SECTIONS.items():
        (to / f"{title.lower()}.md").write_text(f"# {title}\n{toctree(*pages)}", encoding="utf-8")
    for page, others in (
        ("docs/privacy", "*"),
        ("benchmarks", "*/README"),
        ("benchmarks/replications", "*/README"),
        ("vignettes", "*"),
    ):
        with (to / page / "README.md").open("a", encoding="utf-8") as file:
            file.write(toctree(others, hidden=True))
    r_vignettes.linked(to)


def toctree(*pages: str, hidden: bool = False) -> str:
    options = [":glob:", *[":hidden:"] * hidden, *[":maxdepth: 1"] * (not hidden)]
    return "\n".join(["", "```{toctree}", *options, "", *pages, "```", ""])


def section(title: str, names: list[str]) -> str:
    lines = [
        title,
        "-" * len(title),
        "",
        ".. autosummary::",
        "   :toctree: generated",
        "   :nosignatures:",
        "",
    ]
    return "\n".join([*lines, *(f"   {name}" for name in names), "", ""])


def reference() -> str:
    """The reference: public names by the folder that they live in, and the classes of what they give back."""
    text = "Reference\n=========\n\n"
    for title, folder in GROUPS.items():
        names = [
            f"dpstats.{name}"
            for name in dpstats.__all__
            if getattr(getattr(dpstats, name), "__module__", "").startswith(folder)
        ]
        names += [f"dpstats.{name}" for name in CLASSES.get(title, ())]
        text += section(title, names)
    depth = [name for name in dpstats.depth.__all__ if inspect.isfunction(getattr(dpstats.depth, name))]
    text += section("Depth (not private)", [f"dpstats.depth.{name}" for name in depth])
    return text + "R\n-\n\n.. toctree::\n   :maxdepth: 1\n\n   r_bridge/README\n   r_help/README\n"


def broken(site: Path) -> Iterator[str]:
    """Links of the pages that lead to no file of the site, or to no place in its page."""
    pages = [path for path in site.rglob("*.html") if "_static" not in path.parts]
    texts = {path: path.read_text(encoding="utf-8", errors="replace") for path in pages}
    for page, text in texts.items():
        for link in sorted(set(re.findall(r'href="([^"]+)"', text))):
            if re.match(r"[a-z]+:", link):
                continue
            name, _, place = link.partition("#")
            target = (page.parent / name.partition("?")[0]).resolve() if name else page
            if not target.exists():
                yield f"{page.relative_to(site)}: {link}"
            elif place and target in texts and f'id="{place}"' not in texts[target]:
                yield f"{page.relative_to(site)}: {link}"


def quiet(to: Path) -> dict[str, str]:
    """Kernels with no configuration but this: they log errors, and not how they are connected."""
    profile = to / "ipython" / "profile_default"
    profile.mkdir(parents=True)
    (profile / "ipython_kernel_config.py").write_text('c.IPKernelApp.log_level = "ERROR"\n', encoding="utf-8")
    return {"IPYTHONDIR": str(profile.parent)}


def cached(to: Path) -> dict[str, str]:
    """Where results of notebooks are kept: those of this code, as cells alone do not tell what they print."""
    code = hashlib.sha256()
    for path in sorted((ROOT / "dpstats").rglob("*.py")):
        code.update(path.read_bytes())
    cache = to.parent / ".jupyter_cache" / code.hexdigest()[:16]
    for other in cache.parent.glob("*"):
        if other != cache:
            shutil.rmtree(other) if other.is_dir() else other.unlink()
    return {"DPSTATS_DOCS_CACHE": str(cache)}


def main(to: Path) -> int:
    source, trees = to.parent / "site-source", to.parent / "site-trees"
    for folder in (source, trees):
        # what is left of an earlier build may know pages that are gone
        shutil.rmtree(folder, ignore_errors=True)
    copied(source)
    (source / "reference.rst").write_text(reference(), encoding="utf-8")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-d", str(trees)]
    environment = os.environ | quiet(trees) | cached(to)
    status = subprocess.run([*command, str(source), str(to)], env=environment).returncode
    lost = list(broken(to))
    less = [problem for page in r_vignettes.run(to / "vignettes") for problem in shown.missing(page)]
    print(*lost, *less, f"{to}: {len(lost)} broken links", sep="\n")
    return status or bool(lost or less)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "site").resolve()))
