"""The gallery: each script of docs/gallery is run, and its text, its figure and its code become a page."""

import ast
import contextlib
import io
import re
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt  # noqa: E402

DOCS = Path(__file__).resolve().parents[1]
STYLE = DOCS.parent / "vignettes" / "vignette.mplstyle"
WORDS = """# Gallery

Small scripts that are run whenever the site is built, with what they print and draw. They set seeds, so that
the pages stay as they are: **a seeded release protects nobody; leave `seed` out for data that matter.**

"""


def scripts() -> list[Path]:
    return sorted((DOCS / "gallery").glob("*.py"))


@dataclass(frozen=True)
class Shown:
    """What a script says, prints and draws."""

    title: str
    words: str
    code: str
    printed: str
    figure: bytes

    def page(self, image: str) -> str:
        """The page, in Markdown."""
        title = self.title.replace("`", "")
        return (
            f"# {self.title}\n\n{self.words}\n\n![{title}]({image})\n\n"
            f"```python\n{self.code}\n```\n\n```text\n{self.printed}\n```\n"
        )


def run(script: Path) -> Shown:
    """Run a script; it must have a title and words, print something, and leave one figure."""
    text = script.read_text(encoding="utf-8")
    words = ast.get_docstring(ast.parse(text)) or ""
    title, _, rest = words.partition("\n\n")
    plt.close("all")
    printed, drawn = io.StringIO(), io.BytesIO()
    with plt.style.context(STYLE), contextlib.redirect_stdout(printed):
        exec(compile(text, script.name, "exec"), {"__name__": "__main__"})
        if len(plt.get_fignums()) != 1:
            raise ValueError(f"{script.name}: {len(plt.get_fignums())} figures instead of one")
        plt.gcf().savefig(drawn, format="png", bbox_inches="tight")
    plt.close("all")
    if not (title.strip() and rest.strip()):
        raise ValueError(f"{script.name} has no title, or no words")
    if not printed.getvalue().strip():
        raise ValueError(f"{script.name} prints nothing")
    if re.search(r"/(home|tmp|work|root)/", printed.getvalue()):
        raise ValueError(f"{script.name} prints a path of this machine")
    code = text.split('"""', 2)[2].strip()
    return Shown(title.strip(), rest.strip(), code, printed.getvalue().rstrip(), drawn.getvalue())


def write(to: Path) -> None:
    """All pages with their figures, and the page of small figures that leads to them."""
    to.mkdir(parents=True, exist_ok=True)
    cards, names = [], []
    for script in scripts():
        name = script.stem[3:]
        shown = run(script)
        (to / f"{name}.png").write_bytes(shown.figure)
        (to / f"{name}.md").write_text(shown.page(f"{name}.png"), encoding="utf-8")
        cards.append(f"[![]({name}.png) {shown.title}]({name}.md)")
        names.append(name)
    tree = "\n".join(["```{toctree}", ":hidden:", "", *names, "```", ""])
    grid = "```{container} gallery\n" + "\n\n".join(cards) + "\n```\n\n"
    (to / "README.md").write_text(WORDS + grid + tree, encoding="utf-8")
