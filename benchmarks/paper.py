"""The measured tables of ``docs/paper.md``, from the committed tables and nothing else.

python benchmarks/paper.py          # writes them into the page, between <!-- name --> and <!-- end -->
"""

import re
from pathlib import Path

import pandas as pd

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "paper.md"
LEAST_SQUARES = ("ols", "adassp", "boosted_adassp", "huber", "tukey_em")
CLOCKED = "statsmodels ols", "ols", "adassp", "boosted_adassp", "huber", "tukey_em", "diffprivlib", "DP-EBM"
SCORED = {
    "least squares": ("OLS", ""),
    "`ols`": ("ols", "ln 3"),
    "`tukey_em`": ("tukey_em", "ln 3"),
    "DP-EBM, ranges given": ("DP-EBM, ranges given", "ln 3"),
    "diffprivlib, ranges given": ("diffprivlib, ranges given", "ln 3"),
}
AUDITED = (
    "ols",
    "huber",
    "logit",
    "poisson",
    "ols, unit",
    "tukey_em",
    "adassp",
    "boosted_adassp",
    "mean",
    "median",
    "deepest_regression",
)
METHODS = ("dpstats.ols", "BinAgg", "DP-GD", "DP-GD, told the sampling error", "parametric bootstrap")


def main():
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def filled(text):
    """The page with its tables written from the committed ones."""
    for name, lines in tables().items():
        begin, rest = text.split(f"<!-- {name} -->\n", 1)
        after = rest.split("<!-- end -->", 1)[1]
        text = "\n".join([f"{begin}<!-- {name} -->", "", *lines, "", "<!-- end -->"]) + after
    return text


def tables():
    """Lines of every table, by its name."""
    return {
        "intervals": intervals(),
        "estimators": estimators(),
        "glm": glm(),
        "units": units(),
        "methods": methods(),
        "wages": wages(),
        "published": published(),
        "locations": locations(),
        "accuracy": accuracy(),
        "real": real(),
        "audit": audit(),
        "speed": speed(),
        "plans": plans(),
    }


def read(name):
    return pd.read_csv(HERE / name, comment="#")


def table_of(header, rows):
    """Lines of a Markdown table; columns of numbers go to the right, and the first is none."""
    words = [sum(not re.match(r"[-\d]|$", row[i]) for row in rows) for i in range(len(header))]
    rule = ["---", *("---" if n == len(rows) else "---:" for n in words[1:])]
    escaped = ([cell.replace("|", "\\|") for cell in cells] for cells in (header, rule, *rows))
    return ["| " + " | ".join(cells) + " |" for cells in escaped]


def percent(share, places=1):
    return "" if pd.isna(share) else f"{100 * share:.{places}f}"


def span(values, form="{:.2f}"):
    low, high = (form.format(v) for v in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def intervals():
    """Of `ols` at eps = 1, by design: worst coverage, median width, share without an interval.

    Coverage and width are of coefficients with an interval in a quarter of the releases at least.
    """
    table = read("intervals/coverage.csv").query("estimator == 'ols' and eps == 1 and n in (2_000, 20_000)")
    rows = []
    for design, cells in table.groupby("design", sort=False):
        cell = [design]
        for n in (2_000, 20_000):
            part = cells[cells["n"] == n]
            if part.empty:
                cell += ["", "", ""]
            elif not part["given"].sum():
                cell += ["refused", "", ""]
            else:
                most = part["undetermined"].sum() / (part["undetermined"].sum() + part["given"].sum())
                seen = part[part["given"] >= part["runs"] / 4]
                worst, width = (
                    (percent(seen["coverage"].min()), f"{seen['width'].median():.2f}")
                    if len(seen)
                    else ("", "")
                )
                cell += [worst, width, percent(most, 0)]
        rows.append(cell)
    head = [f"{what}, n = {n:,}" for n in (2_000, 20_000) for what in ("coverage", "width", "n.d.")]
    return table_of(["design", *head], rows)


def estimators():
    """Of the least-squares family at eps = 1, over designs and coefficients."""
    table = read("intervals/coverage.csv").query("eps == 1")
    rows = []
    for name in LEAST_SQUARES:
        for n in (2_000, 20_000):
            part = table[(table["estimator"] == name) & (table["n"] == n)]
            given = part[part["given"] >= part["runs"] / 4]
            if given.empty:
                rows.append([f"`{name}`", f"{n:,}", "0", "", "", ""])
                continue
            worst = given.groupby("design")["coverage"].min()
            rows.append(
                [
                    f"`{name}`",
                    f"{n:,}",
                    str(len(worst)),
                    f"{(worst >= 0.93).sum()}",
                    f"{percent(worst.min())} ({worst.idxmin()})",
                    f"{given['width'].median():.2f}",
                ]
            )
    return table_of(
        [
            "estimator",
            "n",
            "designs with intervals",
            "all coefficients at least 93 %",
            "least coverage, %",
            "median width",
        ],
        rows,
    )


def glm():
    rows = []
    table = read("glm/coverage.csv")
    for (design, n), part in table.groupby(["design", "rows"], sort=False):
        rows.append(
            [
                design,
                f"{n:,}",
                span(100 * part["coverage"].dropna(), "{:.1f}"),
                f"{part['width'].median():.2f}",
                percent(part["not determined"].max(), 0),
                percent(part["refused"].max(), 0),
            ]
        )
    return table_of(["design", "n", "coverage, %", "median width", "n.d., most, %", "refused, %"], rows)


def units():
    rows = []
    for name, part in read("unit/coverage.csv").groupby("case", sort=False):
        part = part[part["coverage"].notna()]
        rows.append(
            [
                name if "," in name else f"`{name}`",
                span(100 * part["coverage"], "{:.0f}"),
                f"{part['width'].median():.2f}",
                span(100 * part["record"].dropna(), "{:.0f}") if part["record"].notna().any() else "",
            ]
        )
    return table_of(["estimator", "coverage with `unit=`, %", "median width", "coverage without, %"], rows)


def methods():
    """By method, over all designs, of all coefficients together."""
    table = read("replications/inference/results.csv")
    rows = []
    for name in METHODS:
        part = table[(table["method"] == name) & (table["coefficient"] == "all")]
        rows.append(
            [
                f"`{name}`" if name == METHODS[0] else name,
                str(len(part)),
                f"{((part['coverage'] >= 0.93) & (part['coverage'] <= 0.98)).sum()}",
                span(100 * part["coverage"], "{:.1f}"),
                f"{part['width_median'].median():.2f}",
                f"{part['width_median'].max():.3g}",
                f"{part['rmse'].median():.2f}",
            ]
        )
    return table_of(
        [
            "method",
            "cells",
            "coverage 93 to 98 %",
            "coverage, %",
            "width, median",
            "width, largest",
            "error, median",
        ],
        rows,
    )


def wages():
    rows = []
    table = read("replications/cps_feasibility.csv")
    for (sample, eps), cell in table.groupby(["sample", "eps"], sort=False):
        rows.append(
            [
                sample,
                f"{cell['rows'].iloc[0]:,}",
                f"{eps:g}",
                f"{cell['overlap'].min():.2f}",
                percent(cell["right"].min(), 0),
                span(cell["ratio"]),
                percent(cell["holds"].min(), 0),
            ]
        )
    return table_of(
        [
            "sample",
            "n",
            "eps",
            "overlap, least",
            "right, least, %",
            "standard errors over HC1",
            "holds, least, %",
        ],
        rows,
    )


def published():
    theirs, ours = (read(f"replications/cps_feasibility{s}.csv") for s in ("_published", ""))
    terms = list(dict.fromkeys(theirs["term"]))
    rows = []
    for (method, interval, eps), cell in theirs.groupby(["method", "interval", "eps"], sort=False):
        if eps in (1, 5):
            right = cell.set_index("term")["right"]
            rows.append([f"{method}, {interval}", f"{eps:g}", *(f"{right[t]}" for t in terms)])
    for eps in (1, 5):
        part = ours[(ours["sample"] == "women 2009") & (ours["eps"] == eps)].set_index("term")["right"]
        rows.append(["`ols`, women 2009", f"{eps:g}", *(percent(part[t], 0) for t in terms)])
    names = [t.replace("I(", "").replace(")", "").replace(" ** ", "^").replace("_", "-") for t in terms]
    return table_of(["right in 100 releases", "eps", *names], rows)


def locations():
    """Errors of means and quantiles over those of the sample's."""
    table = read("replications/packages/results.csv")
    table = table[table["what"].isin(["mean", "median", "quantile .9"]) & table["released"].gt(0)]
    rows = []
    for what, part in table.groupby("what", sort=False):
        for (method, bounds), cell in part.groupby(["method", "bounds"], sort=False):
            covered = cell["coverage"].dropna()
            rows.append(
                [
                    what,
                    f"{method}, {bounds} bounds" if bounds != "none" else f"{method}, no bounds",
                    span(cell["rmse"]),
                    span(100 * covered, "{:.0f}") if len(covered) else "",
                ]
            )
    return table_of(["", "method", "error over the sample's", "coverage, %"], rows)


def accuracy():
    table = read("results/accuracy.csv")
    table = table[(table["columns"] == "all") & (table["kind"].notna())].assign(eps=table["eps"].fillna(""))
    ours = table[(table["method"] == "ols") & (table["eps"] == "ln 3")]
    rows = []
    for data in ours["data"]:
        part = table[table["data"] == data].set_index(["method", "eps"])
        cells = []
        for key in SCORED.values():
            median = part.loc[key, "median"] if key in part.index else float("nan")
            median = float(median.iloc[0]) if hasattr(median, "iloc") else float(median)
            cells.append(
                "no fit" if pd.isna(median) else f"{median:.3f}" if median > -10 else f"{median:.0e}"
            )
        rows.append([f"{data}, {int(part['rows'].iloc[0]):,} rows", *cells])
    return table_of(["", *SCORED], rows)


def real():
    rows = []
    table = read("real/after.csv")
    for part, cells in table.groupby("part", sort=False):
        shown = cells[cells["held"].notna()]
        rows.append(
            [
                part,
                str(len(cells)),
                f"{(cells['r2'] >= cells['ls_r2'] - 0.01).sum()}",
                f"{(shown['held'] >= 0.9).sum()} of {len(shown)}",
                f"{shown['se_ratio'].median():.2f}",
                f"{len(cells) - len(shown)}",
            ]
        )
    return table_of(
        [
            "part",
            "problems",
            "R2 within .01 of least squares",
            "intervals hold in 90 %",
            "standard errors over classical ones, median",
            "without intervals",
        ],
        rows,
    )


def audit():
    table = read("audit/audit.csv")
    rows = []
    for name in AUDITED:
        part = table[table["target"] == name]
        right, broken = part[part["variant"] == "correct"], part[part["variant"] != "correct"]
        rows.append(
            [
                f"`{name}`",
                f"{right['limit'].iloc[0]:g}",
                f"{right['lower_bound'].max():.2f}",
                f"{broken['lower_bound'].min():.2f}",
                broken["variant"].iloc[0].removeprefix("broken: "),
            ]
        )
    return table_of(["estimator", "promised eps", "bound", "bound, broken", "what was broken"], rows)


def speed():
    table = read("results/speed.csv").query("table == 'rows'")
    rows = []
    for name in CLOCKED:
        part = table[table["method"] == name].set_index("rows")
        cells = []
        for n in (100_000, 1_000_000):
            found = part["least"].get(n)
            cells.append("" if found is None or pd.isna(found) else f"{found:.2g}")
        rows.append([name if name[0].isupper() or " " in name else f"`{name}`", *cells])
    return table_of(["seconds, 10 columns", "n = 100,000", "n = 1,000,000"], rows)


def plans():
    table = read("plan/plan.csv")
    rows = []
    for name, part in table.groupby("described", sort=False):
        near = (part["ratio"] - 1).abs() <= 0.15
        rows.append([name, f"{near.sum()} of {len(part)}", f"{part['ratio'].median():.2f}"])
    return table_of(["described by", "coefficients within 15 %", "plan over fits, median"], rows)


if __name__ == "__main__":
    main()
