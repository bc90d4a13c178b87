"""Every number in the documentation is measured, tested or defined, and which one it is can be looked up.

- *Measured*: :data:`MEASURED` writes the text from a committed CSV, and the page has to contain it.
- *Tested* or *defined*: ``numbers.toml`` quotes the text, with the name of the test that asserts it, or as a
  parameter, a formula, a citation. A quotation that the page no longer contains is an error, so is a test
  that does not exist, or that does not hold the number.
- Any other number is an error. Not looked at: code, formulas, links and references; years, and numbers of
  theorems and sections; whole numbers up to twelve; shares of the budget in a table column of that name.
  ``docs/benchmarks.md`` as a whole is written by ``benchmarks/run.py``; ``tests/benchmarks/test_page.py``
  compares it.

To put in a number: write it from a CSV with a function under :data:`MEASURED`; for the README and
``docs/benchmarks.md`` run ``python benchmarks/run.py --page``, for ``constants.csv`` its script.
"""

import ast
import csv
import functools
import itertools
import json
import math
import re
import statistics
import sys
import tomllib
from pathlib import Path

import pandas as pd
import pytest

import dpstats

ROOT = Path(dpstats.__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import paper  # noqa: E402
import typical  # noqa: E402
from suite import page, store  # noqa: E402

GENERATED = ROOT / "docs" / "benchmarks.md"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [path for path in PAGES if path != GENERATED]
NAMES = [path.relative_to(ROOT).as_posix() for path in PAGES]
DEPTH = ROOT / "tests" / "reference" / "depth"
REGISTRY = Path(__file__).with_name("numbers.toml")
pytestmark = pytest.mark.skipif(
    not (ROOT / "README.md").is_file(), reason="the pages are not installed with the package"
)

NUMBER = re.compile(
    r"(?<![\w^.])(?<!\^[-+])[-+]?(?:\d{1,3}(?:,\d{3})+|\d*\.\d+|\d+)"
    r"(?:e[-+]?\d+)?(?![\w^]|\.\d|-[a-z])(?: ?%)?"
)
NOT_LOOKED_AT = (
    r"```.*?```",
    r"(?<=\n\n)(?:    [^\n]*\n)+(?:\n(?:    [^\n]*\n)+)*",
    r"`[^`\n]+`",
    r"<!--.*?-->",
    r"\]\([^)]*\)",
    r"(?ms)^## References.*\Z",
    r"\b(?:19|20)\d\d[ab]?\b",
    r"(?i)\b(?:theorem|lemma|corollary|proposition|section|algorithm|table|figure|arXiv)s? "
    r"[\d.]+(?:,? and [\d.]+)?",
)


def blank(text):
    """The text with everything but line breaks turned into spaces."""
    return re.sub(r"[^\n]", " ", text)


def claims(text):
    """The part of a page that may state measurements; the rest is blank."""
    for pattern in NOT_LOOKED_AT:
        text = re.sub(pattern, lambda found: blank(found[0]), text, flags=re.S)
    return "\n".join(_without_shares(text.splitlines()))


def _without_shares(lines):
    shares = set()
    for line in lines:
        if not line.startswith("|"):
            shares = set()
        elif not shares and "share of" in line:
            shares = {k for k, cell in enumerate(line.split("|")) if cell.strip().startswith("share of")}
        elif shares:
            line = "|".join(blank(cell) if k in shares else cell for k, cell in enumerate(line.split("|")))
        yield line


def unexplained(text, quotations):
    """Numbers of a page that are not in one of the quotations, with their lines.

    Parameters
    ----------
    text : str
    quotations : list of str
        Texts that the page contains.

    Returns
    -------
    list of str
    """
    visible = list(claims(text))
    for quotation in quotations:
        for start in (found.start() for found in re.finditer(re.escape(quotation), text)):
            for place in range(start, start + len(quotation)):
                visible[place] = "\n" if text[place] == "\n" else " "
    lines = enumerate("".join(visible).splitlines(), 1)
    return [
        f"line {k}: {n}"
        for k, line in lines
        for n in NUMBER.findall(line)
        if not re.fullmatch(r"[-+]?(\d|1[0-2])", n)
    ]


@functools.cache
def registry():
    return tomllib.loads(REGISTRY.read_text())


def quotations(name):
    """All texts of a page that are accounted for."""
    entry = registry().get(name, {})
    return [
        *entry.get("defined", []),
        *entry.get("tested", {}),
        *(t for f in MEASURED.get(name, []) for t in f()),
    ]


# what the CSVs say, as the pages say it


@functools.cache
def study(name):
    """The rows of a committed table."""
    with open(ROOT / "benchmarks" / name, newline="") as file:
        return tuple(csv.DictReader(line for line in file if not line.startswith("#")))


def rows(name, **where):
    """The rows of a study whose fields are as given."""
    found = [row for row in study(name) if all(row[k] == str(v) for k, v in where.items())]
    assert found, f"{name} has no row with {where}"
    return found


def value(name, column, **where):
    """A field of the only row there is, as a number."""
    (row,) = rows(name, **where)
    return float(row[column]) if row[column] else math.nan


MEASURED = {}


def measured(name):
    """Register a function that yields the texts of a page that state measurements."""

    def register(function):
        MEASURED.setdefault(name, []).append(function)
        return function

    return register


@measured("docs/paper.md")
def tables_of_the_paper():
    for lines in paper.tables().values():
        yield "\n".join(lines)


@measured("docs/plan.md")
def how_near_plans_come():
    table = pd.read_csv(ROOT / "benchmarks" / "plan" / "plan.csv")
    near = (table["ratio"] - 1).abs() <= 0.15
    yield "Within 15 % come"
    large = table["n"] == table.groupby("data")["n"].transform("max")
    for kind, words in (
        ("columns", "laws and correlations of whole columns"),
        ("residuals", "quantiles and correlations within five classes of residuals"),
        ("rows", "four thousand public rows"),
    ):
        part = table["described"] == kind
        counts = [f"{near[which].sum()} of {which.sum()}" for which in (part & large, part)]
        yield f"| {words} | {' | '.join(counts)} |"


@measured("docs/install.md")
def what_the_steps_to_a_first_table_take():
    found = {}
    for row in study("first_table.csv"):
        times = found.setdefault((row["language"], row["step"]), ["not measured"] * 2)
        times[float(row["load"]) > 2] = row["seconds"]
    for quiet, shared in found.values():
        yield f"| {quiet} | {shared} |"


@measured("docs/install.md")
def what_the_dependencies_take():
    sizes = {row["distribution"]: float(row["megabytes"]) for row in study("dependencies.csv")}
    yield f"takes {sum(sizes.values()):.0f} MB"
    sizes["llvmlite, numba"] = sizes.pop("llvmlite") + sizes.pop("numba")
    for name, size in sizes.items():
        yield f"| {name} | {size:.1f} |"


@measured("README.md")
def what_the_suite_found():
    yield page.readme(store.COMMITTED).rstrip("\n")


@measured("README.md")
def a_typical_table():
    table = pd.read_csv(ROOT / "benchmarks" / "typical.csv")
    middle = table.iloc[typical.RELEASES // 2]
    yield f"{middle['coef']:.1f}     {middle['std_err']:.1f}  "
    yield typical.sentence(table)


@measured("README.md")
def drawn_from_real_tables():
    shown = [r for r in study("real/populations.csv") if r["least"]]
    # 86 of 100 and fewer have a probability below 1 % at 93 %
    short = [r for r in shown if float(r["least"]) < 0.87]
    held, plain = (100 * statistics.median(float(r[k]) for r in shown) for k in ("held", "plain"))
    yield f"In samples of {len(shown)} real tables {held:.0f} % of the intervals hold what all rows say"
    yield f"({plain:.0f} % without privacy), but in {len(short)} of them one coefficient at least falls short"


@measured("README.md")
def the_slope_of_a_concave_effect():
    held = {
        int(r["n"]): 100 * float(r["coverage"])
        for r in study("intervals/coverage.csv")
        if (r["design"], r["estimator"], r["coefficient"]) == ("concave", "ols", "x1")
        and float(r["eps"]) == 1
    }
    yield f"the slope held in {held[2_000]:.1f} % of 2,000 rows and in {held[20_000]:.1f} % of 20,000"


@measured("README.md")
def squares_of_a_skewed_column():
    rows = [r for r in study("intervals/squares.csv") if "log" in r["formula"] and float(r["eps"]) == 1]
    (low, high), (plain, most) = (
        [100 * f(float(r[k]) for r in rows) for f in (min, max)] for k in ("coverage", "without privacy")
    )
    yield f"hold in [{low:.0f} to {high:.0f} %]"
    yield f"({plain:.0f} to {most:.0f} % without privacy)"


@measured("README.md")
def coverage_of_single_coefficients():
    found = [r for r in study("least_squares/interval_coefficients.csv") if r["cov_type"] != "bootstrap"]
    low, high = (100 * f(float(r["coverage"]) for r in found) for f in (min, max))
    (sets,) = {r["data sets"] for r in found}
    yield f"Over {sets} data sets in each of eight cells"
    yield f"covered every single coefficient {low:.1f} to {high:.1f} % of the time"


@measured("docs/results.md")
def r_squared_and_sigma():
    table = "intervals/goodness.csv"

    def of(column, design, n):
        return value(table, column, design=design, n=n, fit="ols")

    few, many = ([of(c, "log-normal column", n) for c in ("rsquared", "exact")] for n in (2000, 20000))
    yield f"R-squared is {few[0]:.2f} in the median where least squares has {few[1]:.2f} (2,000 rows"
    yield "2,000 rows, `eps` = 1"
    yield f"and {many[0]:.2f} for {many[1]:.2f} with 20,000"
    sigma = [of("sigma", "log-normal errors", n) for n in (2000, 20000)]
    yield f"standard deviation is {sigma[0]:.2f} and {sigma[1]:.2f} of that of least squares"
    few, many = ([of(c, "log-normal errors", n) for c in ("rsquared", "exact")] for n in (2000, 20000))
    yield f"R-squared {few[0]:.2f} and {many[0]:.2f} where it is {few[1]:.2f} and {many[1]:.2f}"


@measured("docs/results.md")
def constant_variance():
    found = study("intervals/het.csv")
    constant = [100 * float(r["rejects"]) for r in found if not r["design"].startswith("sd ")]
    yield f"{min(constant):.0f} to {max(constant):.0f} % of simulated tables with a constant variance"

    def power(n):
        for spread in ("|z|", "1 to 4", "1 to 2"):
            yield 100 * value("intervals/het.csv", "rejects", design=f"sd {spread}", n=n, eps=1)

    known, steep, double = power(20_000)
    yield f"with 20,000 rows and `eps` = 1 {known:.0f} % where the standard deviation of the errors"
    yield f"{steep:.0f} % where it grows from 1 to 4 over the range of a column"
    yield f"and {double:.0f} % where it doubles"
    yield "with 2,000 rows {:.0f}, {:.0f} and {:.0f} %".format(*power(2_000))


@measured("docs/depth.md")
def stored_cases():
    stored = {
        name: json.loads((DEPTH / f"{name}.json").read_text())
        for name in ("hdepth", "rdepth", "hdepthmedian", "rdepthmedian")
    }
    (stars,) = json.loads((DEPTH / "dataset.json").read_text())
    points = sum(len(case["counts"]) for case in stored["hdepth"]) + len(stars["hdepth_counts"])
    fits = sum(len(case["counts"]) for case in stored["rdepth"]) + len(stars["rdepth_counts"])
    medians, lines = stored["hdepthmedian"], [case for case in stored["rdepthmedian"] if "max_count" in case]
    queries = f"{points:,} queries for halfspace depth in one to four dimensions"
    yield f"{queries}, {fits} fits, {len(medians) + 1} Tukey medians"
    yield f"{len(lines) + 1} deepest regressions"
    flat = sum(case["count_at_mean_of_distinct_lines"] < case["max_count"] for case in lines)
    yield f"is less deep in {flat} of\nthe {len(lines)} stored cases"
    theirs = [case["count_at_mrfDepth_fit"] for case in lines]
    right = sum(t == case["max_count"] for t, case in zip(theirs, lines, strict=True))
    none = theirs.count(None)
    wrong = len(lines) - right - none
    yield f"of the {len(lines)} stored cases deepest in {right}, not in {wrong}, no fit in {none}"
    below = sum(c["mrfDepth_count"] is not None and c["mrfDepth_count"] < c["max_count"] for c in medians)
    unknown = sum(c["mrfDepth_count"] is None for c in medians)
    yield f"below the maximum in {below} of the {len(medians)} stored cases, no depth in {unknown}"


@measured("docs/depth.md")
def beside_mrfdepth():
    found = study("depth/mrfdepth.csv")
    total = {k: sum(int(row[k]) for row in found) for k in found[0] if k not in ("function", "kind")}
    assert {row["kind"] for row in found if row["differ"] != "0"} == {"times 1e-9", "near ties"}
    given = total["cases"] - total["no value"]
    differ = f"Of {given:,} depths that mrfDepth gave, {total['differ']:,} differ from ours"
    yield f"{differ}: data times 1e-9, and values 1e-9 apart"
    with_us, with_them, neither = (total[f"exact with {who}"] for who in ("dpstats", "mrfDepth", "neither"))
    yield f"sides with\ndpstats in {with_us:,}, with mrfDepth in {with_them:,}, and with neither in {neither}"
    yield f"for the decimals, mrfDepth is right in {total['mrfDepth exact for doubles']}"
    rest = total["dpstats else exact with rtol=0"]
    yield f"Of all {total['cases']:,} depths dpstats has {total['dpstats exact']:,} right; the other {rest}\n"
    flags = study("depth/mrfdepth_flag.csv")
    numbers = sum(int(row["cases"]) - int(row["no value"]) for row in flags)
    assert sum(int(row["returns the flag"]) for row in flags) == numbers
    yield f"returned the flag in all {numbers} cases"
    (crashed,) = [row for row in found if row["of those crashed"] != "0"]
    assert (crashed["function"], crashed["kind"]) == ("halfspace, 3 dimensions", "times 1e-9")
    assert crashed["of those crashed"] == crashed["cases"]
    yield f"on all {int(crashed['cases']) // 12} tables in space times 1e-9"
    outcomes = [row["outcome"] for row in study("depth/mrfdepth_tests.csv")]
    assert set(outcomes) == {"passed"}
    yield f"when last run, all {len(outcomes)} passed"


def short(number):
    """A score as the page on selection writes it: three decimals without the zero, whole below -10."""
    return f"{number:.0f}" if number <= -10 else f"{number:.3f}".replace("0.", ".", 1)


def score(row):
    """The cell of a row of ``pipelines.csv``."""
    failed, trials = int(row["failed"]), int(row["trials"])
    if math.isinf(float(row["median_r2"])):
        return "fails" if failed == trials else f"fails in {failed}"
    return short(float(row["median_r2"]))


def page_table(name, start):
    """Of the table of a page whose head begins with `start`: the head's cells, then the cells of each
    line."""
    lines = (ROOT / name).read_text().splitlines()
    (at,) = (k for k, line in enumerate(lines) if line.startswith(start))
    body = itertools.takewhile(lambda line: line.startswith("|"), [lines[at], *lines[at + 2 :]])
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in body]


def line_of(cells):
    """The line of a table, as the page on selection writes it."""
    return "".join(f"| {cell} " if cell else "| " for cell in cells) + "|"


SELECTION = "docs/selection.md"
CHOICES = {
    "all columns": {"selection": "none"},
    **{
        f"{label} {k}": {"selection": name, "k": k}
        for label, name in (("select", "select"), ("Kendall", "kendall"), ("SubLasso", "sub_lasso"))
        for k in (5, 10)
    },
}
PIPELINES = {"`tukey_em`, `whiten=False`": "tukey_em, whiten=False", "synthetic": "synthetic600"}


@measured(SELECTION)
def pipelines():
    """The columns that the head names, of the data and estimators that the lines name."""
    head, *body = page_table(SELECTION, "| data | rows x columns | estimator |")
    data = None
    for first, _, estimator, *_ in body:
        data = PIPELINES.get(first, first) or data
        table = rows(
            "selection/pipelines.csv", data=data, estimator=PIPELINES.get(estimator, estimator.strip("`"))
        )
        size = f"{int(table[0]['rows']):,} x {table[0]['columns']}" if first else ""
        cells = []
        for label in head[3:]:
            found = [row for row in table if all(row[c] == str(v) for c, v in CHOICES[label].items())]
            cells.append(score(found[0]) if found else "")
        yield line_of([first, size, estimator, *cells])


@measured(SELECTION)
def best_five():
    _, *body = page_table(SELECTION, "| data | estimator | all columns | the best five |")
    data = None
    for first, estimator, *_ in body:
        data, name = first or data, estimator.strip("`")
        plain = {"share": ""} if name == "least squares" else {"share": "1.0"}
        cells = [rows("selection/oracle.csv", data=data, estimator=name, choice="none", **plain)[0]]
        cells.append(
            rows(
                "selection/oracle.csv",
                data=data,
                estimator=name,
                choice="oracle",
                share=plain["share"] and "0.95",
            )[0]
        )
        shown = [
            "fails" if math.isinf(float(row["median_r2"])) else short(float(row["median_r2"]))
            for row in cells
        ]
        if plain["share"]:
            shown.append(
                score(rows("selection/pipelines.csv", data=data, estimator=name, selection="select", k=5)[0])
            )
        yield line_of([first, estimator, *shown, *[""] * (3 - len(shown))])


@measured(SELECTION)
def methods_of_choice():
    _, *body = page_table(SELECTION, "| data | best set | DPKendall |")
    for data, *_ in body:
        kendall, pairs = (
            rows("selection/methods.csv", data=data, k=5, method=name)[0] for name in ("kendall", "pairs")
        )
        cells = [f"{short(float(row['median']))} ({short(float(row['mean']))})" for row in (kendall, pairs)]
        yield line_of([data, short(float(kendall["best"])), *cells])


@measured("docs/privacy/smooth_sensitivity.md")
def calibration():
    gains = [
        value("constants.csv", "value", what=f"gain over nissim, eps = {eps}")
        for eps in ("0.5", "1", "2", "4", "12")
    ]
    yield f"| exact, largest product | {' | '.join(f'{gain:.2f}' for gain in gains)} |"
    tuned, largest, paper = (
        value("constants.csv", "value", what=f"deepest_regression noise, {name}")
        for name in ("tuned", "calibrate", "cumings_menon")
    )
    yield f"noise scale {tuned:.1f} against {largest:.1f} (`calibrate`) and {paper:.1f}"


@measured("docs/privacy/tukey_median.md")
def polygons():
    at = {
        j: value("constants.csv", "value", what=f"polygon over order statistics, depth q - {j}")
        for j in (0, 4, 10, 40)
    }
    near = f"is {at[0]:.2f} of `B_k` at the largest depth, {at[4]:.2f} four depths"
    yield f"{near}\nfurther, {at[10]:.2f} at ten and {at[40]:.2f} at forty"


@measured("docs/privacy/selection.md")
def rounds():
    exact, zcdp = (
        [value("constants.csv", "value", what=f"round, {name}, k = {k}") for k in (5, 10, 50)]
        for name in ("exact", "zcdp")
    )
    few = f"a round has {exact[0]:.2f} times the pure share at `k = 5`, {exact[1]:.2f} times at `k = 10`"
    yield f"{few}, {exact[2]:.1f} times at `k = 50`"
    yield f"gives {zcdp[0]:.2f}, {zcdp[1]:.2f} and {zcdp[2]:.1f}"


@measured("docs/choosing.md")
def means_of_skewed_columns():
    laws = ("log-normal(1)", "exponential", "gamma(0.3)", "Pareto(2.5)")
    found = {
        n: [float(rows("intervals/mean.csv", law=law, n=n, eps=1)[0]["limited"]) for law in laws]
        for n in (1000, 2000, 20_000)
    }
    yield f"is that of limited values ({max(n for n in found if min(found[n]) == 1):,} rows and fewer)"


@measured("docs/privacy/median.md")
def intervals_of_the_median():
    name = "depth_estimators/median_coverage.csv"
    cells = [(n, eps) for n in (200, 5000) for eps in (0.5, 2)]
    least = [min(float(r["coverage"]) for r in rows(name, n=n, eps=eps)) for n, eps in cells]
    yield f"| coverage, least over five laws | {' | '.join(f'{v:.3f}' for v in least)} |"
    widths = [rows(name, law="normal", n=n, eps=eps)[0] for n, eps in cells]
    pairs = [(float(r["mean width ratio (finite)"]), float(r["median width ratio"])) for r in widths]
    shown = [
        f"{mean:.2f} ({median:.2f})" if mean < 100 else f"{mean:.0e} ({median:.1f})".replace("e+", "e")
        for mean, median in pairs
    ]
    label = "width over the classical order-statistic interval's, normal: mean (median)"
    yield f"| {label} | {' | '.join(shown)} |"


@measured("docs/privacy/quantile.md")
def medians_near_0():
    name = "depth_estimators/median_near_zero.csv"
    for plus, label in ((0, "normal of mean .05"), (1000, "the same plus 1,000")):
        for lattice, what in (("doubles", f"{label}: lattice of doubles"), ("size", "of the size")):
            found = [f"{float(r[lattice]):.4f}".lstrip("0") for r in rows(name, plus=plus)]
            yield f"| {what} | {' | '.join(found)} |"


@measured("docs/privacy/median.md")
def ranks_of_the_median():
    labels = {
        "exponential, estimate alone": ("exponential", "estimate alone"),
        "exponential, with the interval": ("exponential", "with interval"),
        "smooth, truncate and test": ("smooth", "estimate alone"),
    }
    for label, (mechanism, budget) in labels.items():
        found = [
            rows("depth_estimators/median_ranks.csv", law=law, mechanism=mechanism, budget=budget)[0]
            for law in ("log-normal", "Cauchy")
        ]
        cells = [
            f"{math.floor(float(r['median rank error']))} ({math.floor(float(r['90 % rank error']))})"
            for r in found
        ]
        yield f"| {label} | {' | '.join(cells)} |"


@pytest.mark.parametrize("name", NAMES)
def test_every_number_is_accounted_for(name):
    left = unexplained((ROOT / name).read_text(), quotations(name))
    advice = (
        "write it from a CSV in tests/contract/test_numbers.py, or declare it in tests/contract/numbers.toml"
    )
    assert not left, f"{name}: {left}: {advice}"


@pytest.mark.parametrize("name", NAMES)
def test_every_quotation_is_on_its_page(name):
    text = (ROOT / name).read_text()
    missing = [quotation for quotation in quotations(name) if quotation not in text]
    assert not missing, f"{name} does not say: {missing}"


def test_registry_names_pages_that_exist():
    assert set(registry()) | set(MEASURED) <= set(NAMES)


def figures(source, function):
    """Numbers in the code of a function and of all that it uses from its own file; None without the function.

    Those of comments and texts are none.
    """
    made = {}
    for node in ast.parse(source).body:
        parts = [node, *node.body] if isinstance(node, ast.ClassDef) else [node]
        made |= {part.name: part for part in parts if isinstance(part, ast.FunctionDef | ast.ClassDef)}
        names = ast.walk(ast.Tuple(node.targets)) if isinstance(node, ast.Assign) else ()
        made |= {name.id: node for name in names if isinstance(name, ast.Name)}
    if function not in made:
        return None
    found, waiting, seen = set(), [function], set()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in made:
            continue
        seen.add(name)
        for node in ast.walk(made[name]):
            if isinstance(node, ast.Constant) and type(node.value) in (int, float):
                found.add(float(node.value) if abs(node.value) < 1e300 else math.inf)
            waiting += [node.id] if isinstance(node, ast.Name) else []
            waiting += [node.arg] if isinstance(node, ast.arg) else []
    return found


def without_figure(quotation, found):
    """Numbers of a quotation that are not among those found; 20 % may be 0.2, 0.8 or 1.2."""
    left = []
    for text in NUMBER.findall(quotation):
        number = abs(float(text.rstrip(" %").replace(",", "")))
        same = [number]
        if text.endswith("%"):
            same += [number / 100, 1 - number / 100, 1 + number / 100]
        small = re.fullmatch(r"[-+]?(\d|1[0-2])", text)
        if not small and not any(math.isclose(a, b) for a in same for b in found):
            left.append(text)
    return left


TESTED = [(name, *pair) for name, entry in registry().items() for pair in entry.get("tested", {}).items()]


@pytest.mark.parametrize("name, quotation, test", TESTED, ids=[quotation for _, quotation, _ in TESTED])
def test_the_named_test_holds_the_number(name, quotation, test):
    file, _, function = test.partition("::")
    assert (ROOT / file).is_file() and function.startswith("test_"), f"{name}: {test} names no test"
    found = figures((ROOT / file).read_text(), function)
    assert found is not None, f"{name}: no {test}"
    assert not without_figure(quotation, found), f"{name}: {test} has no such number"


CODE = """\
ROWS = 2_000
UNUSED = 7_777

def helper(n):
    return 1.2 * n

def test_it():
    "In 5,000 trials."
    assert helper(ROWS) < 1e-6  # 99
"""


def test_a_number_that_the_named_test_does_not_hold_is_found():
    found = figures(CODE, "test_it")
    assert found == {2000, 1.2, 1e-6}
    assert without_figure("2,000 rows, 20 % too large, below 1e-6, three times in 12", found) == []
    assert without_figure("2,001 rows, 30 %, 7,777 of 5,000, 1e-7 and 99", found) == [
        "2,001", "30 %", "7,777", "5,000", "1e-7", "99",
    ]  # fmt: skip
    assert figures(CODE, "test_that") is None


PAGE = """\
# Title 2024, theorem 3.14
About `0.5` and 12 things, [0.7](x_0.8.md), 2^-30.

    f = 0.9

| step | share of `mu^2` |
|---|---|
| one | .25 |

It took 1.5 s for 1,000 rows at 95 %, 13 times, .907 and 1e-6.
"""


def test_the_scan_sees_measurements_and_nothing_else():
    assert unexplained(PAGE, []) == [
        "line 2: 0.7",
        *(f"line 10: {n}" for n in ("1.5", "1,000", "95 %", "13", ".907", "1e-6")),
    ]
    assert unexplained(PAGE, ["0.7", "1.5 s for 1,000 rows at 95 %, 13 times", ".907", "1e-6"]) == []


def test_a_changed_digit_is_found():
    changed = PAGE.replace("1.5 s", "1.4 s")
    assert unexplained(changed, ["0.7", "1.5 s for 1,000 rows at 95 %, 13 times", ".907", "1e-6"]) == [
        f"line 10: {n}" for n in ("1.4", "1,000", "95 %", "13")
    ]
