"""R's help pages as pages of the site, where R is installed to convert them."""

import html
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

MAN = Path(__file__).resolve().parents[2] / "r_bridge" / "man"
CONVERT = """
arguments <- commandArgs(TRUE)
files <- list.files(arguments[1], "[.]Rd$", full.names = TRUE)
topic <- function(file) sub("[.]Rd$", "", basename(file))
aliases <- lapply(files, function(file) {
  parts <- Filter(function(part) attr(part, "Rd_tag") == "\\\\alias", tools::parse_Rd(file))
  trimws(vapply(parts, function(part) paste(unlist(part), collapse = ""), ""))
})
links <- setNames(rep(paste0(vapply(files, topic, ""), ".html"), lengths(aliases)), unlist(aliases))
for (file in files) {
  to <- file.path(arguments[2], paste0(topic(file), ".html"))
  # R warns of links to functions of other packages, which become plain text
  suppressWarnings(tools::Rd2HTML(file, out = to, package = "dpstats", Links = links, Links2 = character()))
}
"""
WITHOUT = """The help pages are made when the site is built where R is installed; this one was built without.
In R they are `help(package = "dpstats")`.
"""


def converted() -> dict[str, str] | None:
    """What R makes of the help pages, by topic; nothing without R."""
    rscript = shutil.which("Rscript")
    if rscript is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([rscript, "--vanilla", "-e", CONVERT, str(MAN), folder], check=True)
        return {path.stem: path.read_text(encoding="utf-8") for path in sorted(Path(folder).glob("*.html"))}


def page(text: str) -> tuple[str, str]:
    """The title of a help page, and the page in Markdown, with R's HTML under headings of the site."""
    body = text.partition("<body>")[2].partition("</body>")[0]
    title, _, body = body.partition("<h2>")[2].partition("</h2>")
    # what the page ends with, which is for R's own index, and links into help of other packages
    body = re.sub(r"<hr />.*\Z", "", body, flags=re.S).replace("<p></p>", "")
    body = re.sub(r'<a href="(?:\.\.|[^":]*\.\.)[^"]*">(.*?)</a>', r"\1", body, flags=re.S)
    title = html.unescape(re.sub(r"<[^>]+>", "", title)).strip()
    parts = [f"# {title}\n"]
    for section in body.split("<h3>")[1:]:
        heading, _, content = section.partition("</h3>")
        content = content.replace("<table>", '<table class="r-arguments">').removesuffix("</div>\n").strip()
        content = content.removesuffix("</div>").strip()
        parts.append(f"## {html.unescape(heading)}\n\n````{{raw}} html\n{content}\n````\n")
    return title, "\n".join(parts)


def write(to: Path) -> None:
    """A page for each topic, and the page that lists them."""
    to.mkdir(parents=True, exist_ok=True)
    index = "# R help\n\nHow to install, and what differs from R's own functions: [dpstats for R]"
    index += "(../r_bridge/README.md).\n\n"
    found = converted()
    if found is None:
        (to / "README.md").write_text(index + WITHOUT, encoding="utf-8")
        return
    rows = []
    for topic, text in found.items():
        title, written = page(text)
        (to / f"{topic}.md").write_text(written, encoding="utf-8")
        rows.append(f"| [{topic}]({topic}.md) | {title} |")
    tree = "\n".join(["", "```{toctree}", ":hidden:", "", *found, "```", ""])
    (to / "README.md").write_text(index + "\n".join(["| | |", "|---|---|", *rows, tree]), encoding="utf-8")
