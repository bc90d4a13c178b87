"""What the pages of the vignettes must show once the site is built.

The site runs every vignette whole, and an error in one is an error there. A page that ran may still show less
than it did: fewer figures, or a table without what the text speaks of.
"""

import re
from collections.abc import Iterator
from pathlib import Path

EXPECTED = {
    "first_regression_python": (
        2,
        ["Private OLS (differentially private)", "PROTECTS NOBODY", "Privacy ledger"],
    ),
    "medians": (4, ["Median (differentially private)", "refused", "Tukey median (differentially private)"]),
    "privacy": (
        2,
        ["pure; neighbours: one record added or removed", "broken on purpose", "noise.laplace", "center(x)"],
    ),
    "first_regression_r": (
        4,
        ["Private OLS (differentially private)", "PROTECTS NOBODY", "'residuals' has one entry"],
    ),
    "odds_and_rates_python": (
        1,
        ["Logistic regression (differentially private)", "exp(coef)", "n.d.", "children per year"],
    ),
    "odds_and_rates_r": (
        1,
        [
            "Logistic regression (differentially private)",
            "exp(coef)",
            "Not determined: ",
            "offset(log(yrs_married))",
        ],
    ),
    "panels_python": (
        1,
        [
            "Units (noisy)",
            "all rows of one 'patient' added or removed",
            "about single records",
            "12.0 in place of",
        ],
    ),
    "panels_r": (
        1,
        ["units (a noisy count)", "all rows of one 'patient' added or removed", "about single records"],
    ),
    "study_python": (
        2,
        [
            "Description (differentially private)",
            "Powers of the prediction (RESET)",
            "Wald tests of terms",
            "Privacy ledger",
            "url_slug: ",
        ],
    ),
    "tracts": (2, ["Groups by tract: 64", "root mean squared error", "dp_medsweep, no bounds"]),
    "choosing": (4, ["R-squared at eps = 1.1", "worst single coefficient", "select = 5"]),
}
"""For each vignette the number of its figures, and text of its tables."""


def text_of(page: str) -> str:
    """The visible text of an HTML page, on one line."""
    page = re.sub(r"(?s)<(script|style)\b.*?</\1>", " ", page)
    page = re.sub(r"<[^>]+>", "", page)
    for entity, character in (("&lt;", "<"), ("&gt;", ">"), ("&#39;", "'"), ("&quot;", '"'), ("&amp;", "&")):
        page = page.replace(entity, character)
    return " ".join(page.split())


def missing(path: Path) -> Iterator[str]:
    """What the HTML page of a vignette lacks, or shows and must not."""
    name, page = path.stem, path.read_text(encoding="utf-8")
    figures, phrases = EXPECTED[name]
    text = text_of(page)
    images = re.findall(r'<img\b[^>]*\bsrc="(?:data:image|[^"]*_images)/[^>]*>', page)
    if len(images) < figures:
        yield f"{name}: {len(images)} of {figures} figures"
    if not all(re.search(r'\balt="(?!No description|[^"]*\.png)[^"]+"', image) for image in images):
        yield f"{name}: a figure without a description"
    for source in re.findall(r'src="([^"]*_images/[^"]+)"', page):
        figure = path.parent / source
        if not figure.exists() or figure.stat().st_size < 5_000:
            yield f"{name}: nothing is in {source}"
    yield from (f"{name}: no {phrase!r}" for phrase in phrases if phrase not in text)
    wrong = (
        r"Traceback \(most recent call last\)|Error (?:in |: |message)|\bWarning:|Warning message|"
        "/(?:home|tmp|work|root)/"
    )
    yield from (f"{name}: {found!r}" for found in re.findall(wrong, text))
