"""Coverage and width of the 95 % intervals on simulated data, to two tables.

    python benchmarks/least_squares/interval_coverage.py ols 400 [rows]

Four designs of five columns, true coefficients 1, errors of standard deviation 1, in data sets of 5,000 and
50,000 rows at eps = 1, delta = 1e-6. Seeded: data set i is drawn with seed i, the release too. A width is the
ratio to that of non-private least squares on the same data, and `share` the share of intervals that were
given at all.

``interval_coefficients.csv`` has a line for each coefficient and kind of interval; those of the bootstrap,
for 5,000 rows, are from the same releases as the robust ones. ``interval_coverage.csv`` sums up the robust
ones: `coverage` and the widths (`width` is the median) are of all slopes together, `least` and `most`
are the coverage of the worst and the best of the six coefficients.
"""

import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

import dpstats

SUMMARY = Path(__file__).with_name("interval_coverage.csv")
COEFFICIENTS = Path(__file__).with_name("interval_coefficients.csv")
DESIGNS = "gaussian", "correlated", "t5", "rare dummy"
COV_TYPES = {5000: ("robust", "bootstrap"), 50000: ("robust",)}
CELL = ["estimator", "design", "n"]
COLUMNS = [f"x{j}" for j in range(1, 6)]
FORMULA = "y ~ " + " + ".join(COLUMNS)


def simulate(design, n, seed):
    """A data frame with columns ``x1 .. x5`` and ``y``."""
    g = np.random.default_rng(seed)
    X = g.standard_normal((n, 5))
    if design == "correlated":  # equicorrelated: (1 + 3 r) / ((1 - r)(1 + 4 r)) = 20
        X = np.sqrt(0.96) * g.standard_normal((n, 1)) + np.sqrt(0.04) * X
    errors = g.standard_t(5, n) / np.sqrt(5 / 3) if design == "t5" else g.standard_normal(n)
    frame = pd.DataFrame(X, columns=COLUMNS)
    if design == "rare dummy":
        frame["x5"] = g.random(n) < 0.02
    frame["y"] = 2 + frame[COLUMNS].sum(axis=1) + errors
    # a declared type, so that the range 0 to 1 is public
    return frame.astype({"x5": "boolean"}) if design == "rare dummy" else frame


def least_squares_errors(frame):
    """Standard errors of non-private least squares, by coefficient."""
    y = frame["y"].to_numpy()
    X = np.column_stack([np.ones(len(y)), frame[COLUMNS]]).astype(float)
    inverse = np.linalg.inv(X.T @ X)
    s2 = np.sum((y - X @ (inverse @ (X.T @ y))) ** 2) / (len(y) - X.shape[1])
    return dict(zip(["Intercept", *COLUMNS], np.sqrt(s2 * np.diag(inverse)), strict=True))


def study(name, design, n, runs):
    """One line for each interval of an estimator on a design."""
    lines = []
    for seed in range(runs):
        frame = simulate(design, n, seed)
        errors = least_squares_errors(frame)
        for cov_type in COV_TYPES[n]:
            fit = getattr(dpstats, name)(FORMULA, frame, eps=1, seed=seed, cov_type=cov_type)
            for term, low, high in fit.conf_int().itertuples(name=None):
                term = term.removesuffix("[T.True]")
                covered = low <= (2.0 if term == "Intercept" else 1.0) <= high
                lines.append({
                    "cov_type": cov_type,
                    "coefficient": term,
                    "given": np.isfinite(low),
                    "covered": covered if np.isfinite(low) else np.nan,
                    "width": (high - low) / (2 * 1.959964 * errors[term]),
                })  # fmt: skip
    return pd.DataFrame(lines).astype({"covered": float}).assign(estimator=name, design=design, n=n)


def summaries(lines, runs):
    """The line of the cell and those of its coefficients."""
    groups = lines.groupby([*CELL, "cov_type", "coefficient"], sort=False)
    coefficients = groups.agg(
        coverage=("covered", "mean"),
        width=("width", "median"),
        mean_width=("width", "mean"),
        share=("given", "mean"),
    ).reset_index()
    coefficients.insert(5, "data sets", runs)
    robust = lines[lines["cov_type"] == "robust"]
    each = coefficients[coefficients["cov_type"] == "robust"].set_index("coefficient")["coverage"]
    slopes = robust[robust["coefficient"] != "Intercept"]
    cell = lines.loc[:0, CELL].assign(**{
        "data sets": runs,
        "coverage": slopes["covered"].mean(),
        "least": each.min(),
        "most": each.max(),
        "intercept": each["Intercept"],
        "last": each["x5"],
        "width": slopes["width"].median(),
        "mean_width": slopes["width"].mean(),
        "share": robust["given"].mean(),
    })  # fmt: skip
    return cell, coefficients


def store(path, new):
    """Replace the lines of this estimator, design and size in a table."""
    if path.exists():
        old = pd.read_csv(path)
        same = (old[CELL] == new.iloc[0][CELL]).all(axis=1)
        new = pd.concat([old[~same], new])
    new.sort_values(["estimator", "n", "design"], kind="stable").round(4).to_csv(path, index=False)


def main(name, runs, sizes=tuple(COV_TYPES)):
    for n in sizes:
        for design in DESIGNS:
            start = time.perf_counter()
            cell, coefficients = summaries(study(name, design, n, runs), runs)
            print(
                cell.round(3).to_string(index=False, header=False),
                f"{time.perf_counter() - start:.0f} s",
                flush=True,
            )
            store(SUMMARY, cell)
            store(COEFFICIENTS, coefficients)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *([int(sys.argv[3])],) if sys.argv[3:] else ())
