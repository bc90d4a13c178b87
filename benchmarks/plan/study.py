"""How near `dpstats.plan` comes to the standard errors then seen: eight data sets, three sizes.

    python benchmarks/plan/study.py --data DIR [--only NAME ...] [--described columns errors residuals rows]

The plan is made from a description in ``lookalikes.py`` or ``residuals.json`` alone, or from rows that are
taken as public. Then the real data are fitted, many times, each time on other rows drawn without replacement.
Writes ``plan.csv``. With ``--describe``, ``residuals.json`` is made anew instead.
"""

import argparse
import csv
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import statsmodels.formula.api as smf

import dpstats

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from lookalikes import ERRORS, TABLES  # noqa: E402

EPS = 1.0
SIZES, SMALL = (2_000, 5_000, 15_000), (2_000, 4_000, 6_000)
RUNS, SEED = 480, 20_000
PUBLIC = 4_000
KINDS = ("columns", "errors", "residuals", "rows")
_LOWER = (0, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4)
SHARES = (*_LOWER, 0.5, *(round(1 - share, 4) for share in reversed(_LOWER)))
ENDS = (0.05, 0.2, 0.8, 0.95)
"""Shares of the rows below the ends of groups."""
FEW = 15
"""Columns of so many values or fewer are described by their shares."""
FIELDS = (
    "data", "described", "n", "term", "planned", "planned error", "seen", "seen error", "ratio",
    "planned refused", "seen refused", "planned determined", "seen determined",
)  # fmt: skip


def column(values):
    """A column as a published table has it: shares of its values, or quantiles to four digits."""
    found, counts = np.unique(values, return_counts=True)
    if len(found) <= FEW:
        shares = {float(v): round(float(c / len(values)), 3) for v, c in zip(found, counts, strict=True)}
        return {"shares": {value: share for value, share in shares.items() if share}}
    return {"quantiles": [float(f"{q:.4g}") for q in np.quantile(values, SHARES)]}


def by_residuals(data, formula):
    """Groups of rows by their residual, each with its columns and their correlations to two decimals."""
    response, covariates = formula.split(" ~ ")
    data = data[[response, *covariates.split(" + ")]].astype(float).dropna()
    residuals = smf.ols(formula, data).fit().resid
    ends = np.quantile(residuals, ENDS)
    groups = []
    for _, rows in data.groupby(np.searchsorted(ends, residuals)):
        matrix = rows.loc[:, rows.nunique() > 1].corr().round(2)
        groups.append(
            {
                "share": round(len(rows) / len(data), 4),
                "columns": {name: column(rows[name]) for name in data},
                "correlation": [
                    [a, b, float(matrix.loc[a, b])]
                    for i, a in enumerate(matrix)
                    for b in list(matrix)[:i]
                    if matrix.loc[a, b]
                ],
            }
        )
    return groups


def groups_of(name):
    """The committed groups of a data set, as :func:`dpstats.plan` takes them."""

    def law(facts):
        if "shares" in facts:
            return {float(value): share for value, share in facts["shares"].items()}
        return "quantiles", dict(zip(SHARES, facts["quantiles"], strict=True))

    groups = json.loads((HERE / "residuals.json").read_text())[name]
    return [
        {
            "share": group["share"],
            "columns": {name: law(facts) for name, facts in group["columns"].items()},
            "correlation": {(a, b): r for a, b, r in group["correlation"]},
        }
        for group in groups
    ]


def seen(data, formula, n):
    """Standard errors of fits of the real data, a row for each; NaN where refused or not determined."""
    fits = {}
    for run in range(RUNS):
        rows = data.sample(n, random_state=SEED + run)
        try:
            fits[run] = dpstats.ols(formula, rows, eps=EPS, seed=SEED + run).bse
        except dpstats.ReleaseFailed:
            continue
    return pd.DataFrame(fits).T.reindex(range(RUNS))


def middle(values):
    """Median and its standard error, by order statistics."""
    values = values.dropna().to_numpy()
    half = 0.5 / np.sqrt(len(values))
    low, high = np.quantile(values, [0.5 - half, 0.5 + half])
    return float(np.median(values)), float(high - low) / 2


def lines(name, directory, kinds):
    """The rows of the table for one data set."""
    data = pd.read_parquet(directory / f"{name}.parquet")
    public = data.sample(PUBLIC, random_state=1)
    known = {
        "columns": TABLES[name],
        "errors": ERRORS[name],
        "residuals": {"formula": TABLES[name]["formula"], "like": groups_of(name)},
        "rows": {"formula": TABLES[name]["formula"], "like": public},
    }
    for n in SIZES if len(data) > SIZES[-1] else SMALL:
        fits = seen(data, TABLES[name]["formula"], n)
        for kind in kinds:
            made = known[kind]
            table = dpstats.plan(n=n, eps=EPS, runs=RUNS, progress=False, **made).table.set_index("term")
            for term, row in table.iterrows():
                value, error = middle(fits[term])
                yield {
                    "data": name,
                    "described": kind,
                    "n": n,
                    "term": term,
                    "planned": f"{row.se:.5g}",
                    "planned error": f"{row.error / row.se:.3f}",
                    "seen": f"{value:.5g}",
                    "seen error": f"{error / value:.3f}",
                    "ratio": f"{row.se / value:.3f}",
                    "planned refused": f"{row.refused:.3f}",
                    "seen refused": f"{fits.isna().all(axis=1).mean():.3f}",
                    "planned determined": f"{row.determined:.3f}",
                    "seen determined": f"{fits[term].notna().mean():.3f}",
                }


def summary(path):
    """Print how many lines agree within 15 %, and median ratios, as tables of Markdown."""
    table = pd.read_csv(path)
    table["near"] = (table["ratio"] - 1).abs() <= 0.15
    order = table.groupby("data")["n"].transform(lambda n: n.rank(method="dense"))
    table["size"] = order.map({1: "small", 2: "middle", 3: "large"})
    kinds = [kind for kind in KINDS if kind in set(table["described"])]
    print("| described by | small | middle | large | all |\n|---|---|---|---|---|")
    for kind in kinds:
        part = table[table["described"] == kind]
        found = [part[part["size"] == size]["near"] for size in ("small", "middle", "large")]
        cells = [f"{near.sum()} of {len(near)}" for near in [*found, part["near"]]]
        print(f"| {kind} | {' | '.join(cells)} |")
    print("\n| data | " + " | ".join(kinds) + " |\n|---" + "|---" * len(kinds) + "|")
    for name, part in table.groupby("data"):
        medians = part.groupby(["described", "size"])["ratio"].median()
        cells = [
            ", ".join(f"{medians[kind, size]:.2f}" for size in ("small", "middle", "large")) for kind in kinds
        ]
        print(f"| {name} | {' | '.join(cells)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(), help="directory of the Parquet files")
    parser.add_argument("--only", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--described", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--out", type=Path, default=HERE / "plan.csv")
    parser.add_argument("--summary", action="store_true", help="of the table that is there")
    parser.add_argument("--describe", action="store_true", help="make residuals.json from the files")
    given = parser.parse_args()
    if given.summary:
        return summary(given.out)
    if given.describe:
        made = {
            name: by_residuals(pd.read_parquet(given.data / f"{name}.parquet"), known["formula"])
            for name, known in TABLES.items()
        }
        text = ",\n".join(
            f"{json.dumps(name)}: [\n" + ",\n".join(map(json.dumps, groups)) + "\n]"
            for name, groups in made.items()
        )
        (HERE / "residuals.json").write_text("{\n" + text + "\n}\n")
        return None
    found = []
    for name in given.only:
        for line in lines(name, given.data, given.described):
            print(*line.values(), sep="\t", flush=True)
            found.append(line)
    with open(given.out, "w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)
    summary(given.out)


if __name__ == "__main__":
    main()
