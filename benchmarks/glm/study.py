"""Coverage and width of the intervals of ``logit`` and ``poisson``; writes coverage.csv.

Run: python benchmarks/glm/study.py 400 5000 50000 (half an hour on one core), then the names of
designs if only some are wanted: the number of data sets, and sizes. Other rows are kept.

A row is a coefficient of a design at a size, at eps = 1 or at what the design's name says. `refused`:
share of the data sets without estimates; `not determined`: share of the others without an interval for
this coefficient; `coverage` and `width` are of the rest, the width as the median ratio of the standard
errors to those without privacy (of the model for ``logit``, robust for ``poisson``). `error`: root mean
squared error over the median of those.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import statsmodels.api as sm
from designs import DESIGNS, FORMULA, draw

import dpstats

PATH = Path(__file__).with_name("coverage.csv")


def cell(name, rows, sets):
    seen, refused, eps = [], 0, 3 if name.endswith("eps = 3") else 1
    for seed in range(sets):
        frame, beta, method = draw(name, rows, seed)
        try:
            fit = getattr(dpstats, method)(FORMULA, frame, eps=eps, seed=seed)
        except dpstats.ReleaseFailed:
            refused += 1
            continue
        X, family = sm.add_constant(frame[["x1", "x2", "x3"]]), sm.families
        family = family.Binomial() if method == "logit" else family.Poisson()
        exact = sm.GLM(frame["y"], X, family=family).fit(
            cov_type="nonrobust" if method == "logit" else "HC0", start_params=beta
        )
        ends = fit.conf_int().to_numpy()
        seen.append(
            np.column_stack([fit.params, fit.bse, exact.bse, (ends[:, 0] <= beta) & (beta <= ends[:, 1])])
        )
    for j, column in enumerate(["constant", "x1", "x2", "x3"]):
        estimate, se, without, held = np.array(seen)[:, j].T if seen else np.empty((4, 0))
        known = ~np.isnan(se)
        yield {
            "design": name,
            "rows": rows,
            "coefficient": column,
            "sets": sets,
            "refused": refused / sets,
            "not determined": np.mean(~known) if len(se) else np.nan,
            "coverage": np.mean(held[known]) if known.any() else np.nan,
            "width": np.median((se / without)[known]) if known.any() else np.nan,
            "error": np.sqrt(np.mean((estimate - beta[j])[known] ** 2)) / np.median(without)
            if known.any()
            else np.nan,
        }


def main(sets, sizes, names):
    kept = pd.read_csv(PATH).to_dict("records") if PATH.exists() else []
    for rows in sizes:
        for name in names:
            kept = [row for row in kept if (row["design"], row["rows"]) != (name, rows)]
            kept += cell(name, rows, sets)
            for row in kept[-4:]:
                print(*(f"{v:.3f}" if isinstance(v, float) else v for v in row.values()), flush=True)
            pd.DataFrame(kept).to_csv(PATH, index=False, float_format="%.4g")


if __name__ == "__main__":
    numbers = [int(a) for a in sys.argv[1:] if a.isdigit()]
    main(numbers[0], numbers[1:], [a for a in sys.argv[1:] if not a.isdigit()] or list(DESIGNS))
