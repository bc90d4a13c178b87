"""How often `het_test()` of `ols` rejects at 5 %; writes het.csv.

    OMP_NUM_THREADS=1 python benchmarks/intervals/het.py [SETS]    # 100 by default; ten minutes on one core

delta = 1e-6. `given` is the number of data sets with a test, `rejects` the share of these with a p-value
below .05.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from designs import DESIGNS

import dpstats

PATH = Path(__file__).with_name("het.csv")
CONSTANT = (
    "normal", "t(3) errors", "VIF 20", "log-normal covariate", "Pareto covariate", "heavy rows",
    "numeric 0/1 at 1 %", "95 % zero", "rare dummy",
)  # fmt: skip
GROWING = {
    "1 to 1.5": lambda x, z: 1 + 0.5 * x,
    "1 to 2": lambda x, z: 1 + x,
    "1 to 4": lambda x, z: 1 + 3 * x,
    "|z|": lambda x, z: abs(z),
}
SIZES = (2_000, 1), (2_000, 3), (20_000, 1)


def uniform_and_normal(sd):
    """`x` uniform on [0, 1] and `z` normal, and errors with standard deviation ``sd(x, z)``."""

    def draw(n, g):
        x, z = g.uniform(0, 1, n), g.standard_normal(n)
        return pd.DataFrame({"x": x, "z": z, "y": x + sd(x, z) * g.standard_normal(n)}), None

    return draw


if __name__ == "__main__":
    sets, rows = int(sys.argv[1]) if len(sys.argv) > 1 else 100, []
    cases = [(name, DESIGNS[name].draw, DESIGNS[name].formula) for name in CONSTANT]
    cases += [(f"sd {name}", uniform_and_normal(sd), "y ~ x + z") for name, sd in GROWING.items()]
    for name, draw, formula in cases:
        for n, eps in SIZES:
            p = []
            for s in range(sets):
                frame, _ = draw(n, np.random.default_rng(s))
                try:
                    p.append(dpstats.ols(formula, frame, eps=eps, seed=s).het_test().pvalue)
                except dpstats.ReleaseFailed:
                    continue
            rejects = f"{np.mean(np.less(p, 0.05)):.3f}" if p else ""
            rows.append((name, n, eps, sets, len(p), rejects))
            print(*rows[-1])
    columns = ["design", "n", "eps", "sets", "given", "rejects"]
    pd.DataFrame(rows, columns=columns).to_csv(PATH, index=False, lineterminator="\n")
