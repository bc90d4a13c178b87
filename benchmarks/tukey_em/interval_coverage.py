"""Coverage of the 95 % intervals of tukey_em on Gaussian linear data.

    python benchmarks/tukey_em/interval_coverage.py [data sets]

Five correlated normal columns (correlation 0.5), n = 30,000, eps = 1, delta = 1e-6. Writes
``interval_coverage.csv``: per coefficient the coverage over the data sets and the median width relative to
least squares.
"""

import csv
import sys
from pathlib import Path

import numpy as np
import pandas as pd

import dpstats

ROWS = 30_000
BETA = np.array([3.0, 1.0, -2.0, 0.5, 0.0, 4.0])
SIGMA = 2.0


def data_set(seed):
    """One data set: a frame with columns x1 .. x5 and y."""
    rng = np.random.default_rng(seed)
    X = np.sqrt(0.5) * (rng.standard_normal((ROWS, 5)) + rng.standard_normal((ROWS, 1)))
    y = BETA[0] + X @ BETA[1:] + SIGMA * rng.standard_normal(ROWS)
    return pd.DataFrame(X, columns=["x1", "x2", "x3", "x4", "x5"]).assign(y=y)


def main(sets):
    """Run the study and write the table."""
    covered, widths, failed = np.zeros(6), [], 0
    for seed in range(sets):
        frame = data_set(seed)
        try:
            fit = dpstats.tukey_em("y ~ x1 + x2 + x3 + x4 + x5", frame, eps=1)
        except dpstats.ReleaseFailed:
            failed += 1
            continue
        interval = fit.conf_int().to_numpy()
        covered += (interval[:, 0] <= BETA) & (interval[:, 1] >= BETA)
        X = np.column_stack([np.ones(ROWS), frame.to_numpy()[:, :5]])
        se = SIGMA * np.sqrt(np.diag(np.linalg.inv(X.T @ X)))
        widths.append((interval[:, 1] - interval[:, 0]) / (2 * 1.96 * se))
    rows = zip(fit.params.index, covered / len(widths), np.median(widths, axis=0), strict=True)
    with open(Path(__file__).with_name("interval_coverage.csv"), "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["coefficient", "coverage", "width_over_ols", "data_sets", "failed"])
        for name, coverage, width in rows:
            writer.writerow([name, f"{coverage:.4f}", f"{width:.2f}", sets, failed])
    print(Path(__file__).with_name("interval_coverage.csv").read_text())


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
