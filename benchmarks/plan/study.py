"""How near `dpstats.plan` comes to the standard errors then seen: eight data sets, three sizes.

    python benchmarks/plan/study.py --data DIR [--only NAME ...] [--described columns errors rows]

The plan is made from a description in ``lookalikes.py`` alone, or from rows that are taken as public. Then
the real data are fitted, many times, each time on other rows drawn without replacement. Writes ``plan.csv``.
"""

import argparse
import csv
import sys
from pathlib import Path

import numpy as np
import pandas as pd

import dpstats

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from lookalikes import ERRORS, TABLES  # noqa: E402

EPS = 1.0
SIZES, SMALL = (2_000, 5_000, 15_000), (2_000, 4_000, 6_000)
RUNS, SEED = 240, 20_000
PUBLIC = 4_000
KINDS = ("columns", "errors", "rows")
FIELDS = (
    "data", "described", "n", "term", "planned", "planned error", "seen", "seen error", "ratio",
    "planned refused", "seen refused", "planned determined", "seen determined",
)  # fmt: skip


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
    print("| described by | small | middle | large | all |\n|---|---|---|---|---|")
    for kind in KINDS:
        part = table[table["described"] == kind]
        found = [part[part["size"] == size]["near"] for size in ("small", "middle", "large")]
        cells = [f"{near.sum()} of {len(near)}" for near in [*found, part["near"]]]
        print(f"| {kind} | {' | '.join(cells)} |")
    print("\n| data | " + " | ".join(KINDS) + " |\n|---|---|---|---|")
    for name, part in table.groupby("data"):
        medians = part.groupby(["described", "size"])["ratio"].median()
        cells = [
            ", ".join(f"{medians[kind, size]:.2f}" for size in ("small", "middle", "large")) for kind in KINDS
        ]
        print(f"| {name} | {' | '.join(cells)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(), help="directory of the Parquet files")
    parser.add_argument("--only", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--described", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--out", type=Path, default=HERE / "plan.csv")
    parser.add_argument("--summary", action="store_true", help="of the table that is there")
    given = parser.parse_args()
    if given.summary:
        return summary(given.out)
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
