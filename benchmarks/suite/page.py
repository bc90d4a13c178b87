"""``docs/benchmarks.md`` and its figures, from the committed tables and nothing else."""

import functools
import math
import re
from pathlib import Path

import pandas as pd

from suite import check, problems, store, validity
from suite.accuracy import EPS, KEY
from suite.methods import METHODS, OURS, PEER, PLAIN, PUBLISHED

QUOTED = Path(__file__).parents[1] / "quoted.csv"
AUDIT = Path(__file__).parents[1] / "audit" / "audit.csv"
MAIN_EPS = "ln 3"
INTRODUCTION = """\
# Benchmarks

*This page is written by `benchmarks/run.py` from the tables in `benchmarks/results/`; a test compares them.*

`make bench` runs the quick version of the suite in less than ten minutes on two cores, set-up included,
`make bench-full` the long one. A run says what got worse than these results by more than its noise. Every
row of a table names its run; the runs, with processor, memory and versions, are in
[runs.csv](../benchmarks/results/runs.csv).
"""


def draw(source, folder):
    """Draw the figures of the tables that are there into `folder`."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from suite import figures

    Path(folder).mkdir(parents=True, exist_ok=True)
    with plt.rc_context(figures.STYLE):
        accuracy, times = store.read("accuracy.csv", source), store.read("speed.csv", source)
        intervals, memory = store.read("validity.csv", source), store.read("memory.csv", source)
        if not accuracy.empty:
            figures.accuracy(accuracy, Path(folder) / "accuracy.png")
            figures.budgets(accuracy, Path(folder) / "budgets.png")
        if not intervals.empty:
            figures.coverage(intervals, Path(folder) / "coverage.png")
        if not times.empty:
            figures.speed(times, memory, Path(folder) / "speed.png")


def text(source):
    """The page."""
    runs = store.read("runs.csv", source)
    parts = [INTRODUCTION, _machines(runs)]
    for name, section in (
        ("accuracy.csv", _accuracy),
        ("validity.csv", _validity),
        ("speed.csv", functools.partial(_speed, runs)),
        ("memory.csv", _memory),
    ):
        table = store.read(name, source)
        if not table.empty:
            parts.append(section(table))
    if AUDIT.exists():
        parts.append(_audit(pd.read_csv(AUDIT)))
    parts.append(_check())
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


README = ("<!-- written by benchmarks/run.py -->", "<!-- end of what benchmarks/run.py writes -->")
README_METHODS = {
    "least squares, not private": "OLS",
    "`ols`": "ols",
    "`tukey_em`": "tukey_em",
    "TukeyEM in its axes": "TukeyEM, its axes",
    "DP-EBM, ranges given": "DP-EBM, ranges given",
    "diffprivlib, ranges given": "diffprivlib, ranges given",
}


def readme(source):
    """The part of the README that quotes results."""
    accuracy, intervals = store.read("accuracy.csv", source), store.read("validity.csv", source)
    times, runs = store.read("speed.csv", source), store.read("runs.csv", source).set_index("run")
    real = accuracy[(accuracy["columns"] == problems.ALL) & accuracy["data"].isin(problems.REAL)]
    sizes = real.groupby("data", sort=False)[["rows", "covariates"]].first()
    table, scores = [], _cells(accuracy)
    for data, (rows, covariates) in sizes.iterrows():
        cells = (
            _score(scores, data, problems.ALL, m, "" if METHODS[m].kind == PLAIN else MAIN_EPS)
            for m in README_METHODS.values()
        )
        table.append([f"{data}, {rows:,} x {covariates + 1}", *cells])
    released = real.loc[real["method"] == "ols", "runs"]
    covered = [_covered(intervals, name, 50_000) for name in ("ols", "tukey_em")]
    sets = intervals.loc[(intervals["estimator"] == "ols") & (intervals["rows"] == 50_000), "data_sets"]
    speeds = []
    for rows, what in ((100_000, " without privacy"), (1_000_000, "")):
        part = times[(times["table"] == "rows") & (times["rows"] == rows)].set_index("method")
        named = part.loc[["ols", "tukey_em", "statsmodels ols"]]
        if named["least"].isna().any():
            raise ValueError(f"speed.csv has not all times for the README: {named['failure'].to_dict()}")
        ols, tukey_em, plain = map(_seconds, named["least"])
        speeds.append(
            f"{rows:,} rows by 10 columns {ols} s (`ols`) and {tukey_em} s (`tukey_em`),\n"
            f"statsmodels{what} {plain} s"
        )
    where = runs.loc[part["run"].iloc[0]]
    beside = _beside_other_work(runs.reset_index(), times)
    text = f"""\
{README[0]}
In-sample R-squared, defaults only, `eps` = ln 3, `delta` = 1e-5: medians of {_span(released)} releases
([accuracy.csv](benchmarks/results/accuracy.csv)). "Ranges given": told the smallest and largest value of
every column. `ols` predicts on columns limited to their private ranges, so it can even beat least squares.

{markdown(["", *README_METHODS], table)}

The 95 % intervals covered {covered[0]} % (`ols`) and {covered[1]} % (`tukey_em`) of the time, by
coefficient, over {_span(sets)} data sets of 50,000 rows in each of four designs, at `eps` = 1
([validity.csv](benchmarks/results/validity.csv)). Formula and frame in, table out, on {where["cores"]} cores
([speed.csv](benchmarks/results/speed.csv)): {"; ".join(speeds)}. {beside}

All of it, with other packages, the published settings, memory and the privacy audit:
**[benchmarks](docs/benchmarks.md)**; `make bench` runs it again.
{README[1]}
"""
    return re.sub(r" +$", "", text, flags=re.M)


def put_into_readme(path, source):
    """Put :func:`readme` between its two marks."""
    text = path.read_text()
    before, rest = text.split(README[0])
    path.write_text(before + readme(source).rstrip("\n") + rest.split(README[1])[1])


def _beside_other_work(runs, table):
    load = runs.loc[runs["run"].isin(table["run"]), "load"].max()
    return (
        f"*Measured beside other work (load {load:g}): the ratios say more than the seconds.* "
        if load > 1
        else ""
    )


def _span(counts):
    low, high = int(counts.min()), int(counts.max())
    return f"{low}" if low == high else f"{low} to {high}"


def _covered(table, estimator, rows):
    each = table[
        (table["estimator"] == estimator) & (table["rows"] == rows) & (table["coefficient"] != "all")
    ]["coverage"]
    return f"{_share(each.min())} to {_share(each.max())}"


def markdown(header, rows):
    """A table; all columns but the first to the right."""
    lines = [
        " | ".join(header),
        " | ".join(["---"] + ["---:"] * (len(header) - 1)),
        *(" | ".join(map(str, row)) for row in rows),
    ]
    return "\n".join(f"| {line} |" for line in lines)


def number(value):
    """An R-squared: three decimals, fewer where it is absurd."""
    if not math.isfinite(value):
        return ""
    return f"{value:.3f}" if value > -10 else f"{value:.0f}" if value > -1e4 else f"{value:.0e}"


def _machines(runs):
    lines = []
    for run in runs.to_dict("records"):
        load = f", load {run['load']:g} at the start" if run["load"] == run["load"] else ""
        lines.append(
            f"- {run['run']}: {run['processor']}, {run['cores']} cores, {run['memory_gib']} GiB, "
            f"{run['system']}{load}; Python {run['python']}, dpstats {run['dpstats']} (code {run['code']}), "
            f"NumPy {run['numpy']}, OpenDP {run['opendp']}"
        )
    return "\n".join(lines)


def _cells(table):
    return {tuple(row[name] for name in KEY): row for row in table.to_dict("records")}


def _score(cells, *key):
    row = cells.get(key)
    if row is None:
        return ""
    shown = number(row["median"])
    if row["failed"]:
        shown = f"{shown} ({row['failed']} of {row['runs']} failed)" if shown else "no fit"
    return shown


def _scores(cells, methods, columns, eps, sets):
    rows = []
    for data in sets:
        shown = [_score(cells, data, columns, m, "" if METHODS[m].kind == PLAIN else eps) for m in methods]
        rows.append([data, *shown])
    return markdown(["", *methods], rows)


def _of(kinds, columns):
    return [name for name, m in METHODS.items() if m.kind in kinds and columns in m.columns]


def _accuracy(table):
    cells = _cells(table)
    every = list(dict.fromkeys(table.loc[table["columns"] == problems.ALL, "data"]))
    one = list(dict.fromkeys(table.loc[table["columns"] == problems.ONE, "data"]))
    runs = sorted(set(table.loc[(table["kind"] == OURS), "runs"]))
    quoted = pd.read_csv(QUOTED)
    methods = list(dict.fromkeys(quoted["method"]))
    said = quoted.set_index(["data", "method"])["r2"]
    eps_rows = [
        [data, eps, *(_score(cells, data, problems.ALL, m, eps) for m in _of([OURS], problems.ALL))]
        for data in every
        for eps in EPS
    ]
    left_out = [name for name in problems.REAL if name not in every]
    theirs = [
        [d, *(number(said.get((d, m), math.nan)) for m in methods)] for d in dict.fromkeys(quoted["data"])
    ]
    note = (
        f"Not measured in this run, because the data were not given: {', '.join(left_out)}.\n"
        if left_out
        else ""
    )
    return f"""
## Accuracy
In-sample R-squared, `delta` = 1e-05, medians of {runs[0]} to {runs[-1]} seeded runs (DP-EBM fewer); every
number has its quartiles, least value and failures in [accuracy.csv](../benchmarks/results/accuracy.csv),
every run of dpstats is in `accuracy_runs.csv.gz`. Defaults only; ordered factors enter as 1, 2, ... "Ranges
given": the method was told the non-private smallest and largest value of every column, which nobody has.
{note}
![Medians and quartiles](figures/accuracy.png)

Without privacy, and with `eps` = ln 3:

{_scores(cells, [*_of([PLAIN], problems.ALL), *_of([OURS], problems.ALL)], problems.ALL, MAIN_EPS, every)}

The published settings of TukeyEM (`tukey_em(whiten=False)`), BoostedAdaSSP and AdaSSP
(`standardize=False`), with the privacy of this package, and other packages:

{_scores(cells, ["OLS", *_of([PUBLISHED, PEER], problems.ALL)], problems.ALL, MAIN_EPS, every)}

`headline` is `price ~ carat + clarity` on the diamonds. `synthetic` is the linear problem of Amin et al.
(22,000 rows, 10 columns), `collinear` has equicorrelated columns in units from a thousandth to a thousand,
and in `outliers` 3 % of the responses are moved by 50; these are not scored.

### Quoted
From the papers' own tables, **not measured here**, `eps` = ln 3, `delta` = 1e-05
([quoted.csv](../benchmarks/quoted.csv); Amin et al. 2022, Figure 1; the data are theirs, of the same
names). [The papers, figure by figure](../benchmarks/replications/papers/README.md) has those of the other
papers, and what was run again.

{markdown(["quoted", *methods], theirs)}

### One covariate
{problems.ONE_COVARIATE_ROWS:,} rows drawn at random once, `eps` = ln 3:

{_scores(cells, _of([PLAIN, OURS], problems.ONE), problems.ONE, MAIN_EPS, one)}

{_scores(cells, ["OLS", *_of([PEER], problems.ONE)], problems.ONE, MAIN_EPS, one)}

### By budget
![What privacy costs](figures/budgets.png)

{markdown(["", "eps", *_of([OURS], problems.ALL)], eps_rows)}
"""


def _share(value):
    return f"{100 * value:.1f}" if math.isfinite(value) else ""


def _validity(table):
    pooled = table[table["coefficient"] == "all"].reset_index(drop=True)
    rows = []
    for row in pooled.to_dict("records"):
        same = (table[["estimator", "design", "rows"]] == [row["estimator"], row["design"], row["rows"]]).all(
            axis=1
        )
        each = table.loc[same & (table["coefficient"] != "all"), "coverage"]
        spread = f"{_share(each.min())} to {_share(each.max())}" if len(each) > 1 else ""
        about = row["about"] or "-"
        given = f"{row['intervals']} of {row['intervals'] + row['not_given']}"
        rows.append([row["estimator"], row["design"], f"{row['rows']:,}", about, _share(row["coverage"]),
                     spread,
                     f"{row['width']:.2f}" if math.isfinite(row["width"]) else "", given,
                     f"{row['failed']} of {row['data_sets']}"])  # fmt: skip
    silent = "`gradient_descent`, `medsweep`, `theil_sen`, `noisy_stats` and `bounding_box`"
    header = ["", "design", "rows", "about", "coverage, %", "by coefficient", "width", "given", "failed"]
    return f"""
## Validity
Coverage of the 95 % intervals at `eps` = {validity.EPS:g}, `delta` = {validity.DELTA:g}, by coefficient in
[validity.csv](../benchmarks/results/validity.csv). An interval *about* the population covers sampling and
noise; one about these data covers the noise alone. The width is over that of the textbook interval without
privacy on the same data; *given* are the intervals that were printed at all. {silent} print none, nor does
`deepest_regression` by its exponential mechanism, `median` by the smooth one.

![Coverage](figures/coverage.png)

{markdown(header, rows)}
"""


def _seconds(value):
    return "" if not math.isfinite(value) else f"{value:.2g}" if value < 10 else f"{value:.0f}"


def _speed(runs, table):
    sections = []
    for name, what in (
        ("rows", "by rows, 10 columns"),
        ("columns", "by columns, 100,000 rows"),
        ("one covariate", "one covariate, by rows"),
    ):
        part = table[table["table"] == name]
        along = "columns" if name == "columns" else "rows"
        sizes = sorted(set(part[along]))
        methods = list(dict.fromkeys(part["method"]))
        rows = []
        for method in methods:
            cells = part[part["method"] == method].set_index(along)
            rows.append([method, *(_cell(cells, size) for size in sizes)])
        sections.append(
            f"Seconds, {what} (times statsmodels in parentheses):\n\n"
            + markdown(["", *(f"{s:,}" for s in sizes)], rows)
        )
    body = "\n\n".join(sections)
    return f"""
## Speed and memory
Whole calls, formula and frame in, results out, unseeded; the least of up to {table["rounds"].max()} rounds,
interleaved, with all cores ([speed.csv](../benchmarks/results/speed.csv) has medians as well). Empty:
refused for too few rows, failed, or too slow on smaller data to be tried (a single call took more than 1.5
s, in the long version 10 s). {_beside_other_work(runs, table)}Depth functions beside mrfDepth and ddalpha:
[benchmarks/depth](../benchmarks/depth/README.md).

![Speed and memory](figures/speed.png)

{body}
"""


def _cell(cells, size):
    if size not in cells.index or not math.isfinite(cells.loc[size, "least"]):
        return ""
    row = cells.loc[size]
    ratio = row["over_statsmodels"]
    return _seconds(row["least"]) + (f" ({_ratio(ratio)})" if math.isfinite(ratio) and ratio != 1 else "")


def _ratio(value):
    return f"{value:.2g}" if value < 100 else f"{value:.0f}"


def _memory(table):
    sizes = sorted(set(zip(table["rows"], table["columns"], strict=True)))
    rows = []
    for method in dict.fromkeys(table["method"]):
        added = table[table["method"] == method].set_index("rows")["added_mib"].dropna()
        rows.append([method, *(f"{added[n]:.0f}" if n in added else "" for n, _ in sizes)])
    data = ["the data", *(f"{table.loc[table['rows'] == n, 'data_mib'].iloc[0]:.0f}" for n, _ in sizes)]
    return f"""
Memory in MiB that a call adds at its peak ([memory.csv](../benchmarks/results/memory.csv)); where there
is none, so few rows give no release:

{markdown(["", *(f"{n:,} x {d}" for n, d in sizes)], [*rows, data])}
"""


def _audit(table):
    columns = ["target", "variant", "neighbours", "lower_bound", "limit", "verdict"]
    rows = [
        [f"{v:.2f}" if isinstance(v, float) else v for v in row]
        for row in table[columns].itertuples(index=False)
    ]
    return f"""
## Privacy audit
A lower bound on `eps` from actual outputs, for every mechanism and estimator and for a broken variant of
each; the limit is the `eps` that is promised. What the rows are:
[benchmarks/audit](../benchmarks/audit/README.md); all columns: [audit.csv](../benchmarks/audit/audit.csv).

{markdown([c.replace("_", " ") for c in columns], rows)}
"""


def _check():
    return f"""
## When a run is worse
Accuracy is compared run by run: the sum of ranks of the new values among old and new ones, over the budgets
of a method on a data set, has a known law if nothing has changed. Coverage is compared by Fisher's exact
test, widths by their medians. All comparisons of one run together raise a false alarm with probability
{check.FALSE_ALARM:g} at most. Times are compared on the same processor without other work, as ratios to
statsmodels, and a growth by more than {check.SLOWER:g} is reported, without an error rate.
`tests/benchmarks/` shows that the comparison keeps its error rate and finds what it should.
"""
