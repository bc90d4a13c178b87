"""``logit`` on the Adult data beside the estimate without privacy; writes adult.csv.

Run: python benchmarks/glm/adult.py FOLDER, a folder with adult.data and adult.test of the UCI repository,
which are not part of this project.

Income above 50,000 on age, years of education, sex, hours and capital gain; eps = 1, delta one over the
square of the number of rows. A row is a coefficient: `error`, the median absolute distance of 20 releases
from the maximum-likelihood estimate, and `standard error`, the median of theirs, both in units of its
standard error; and `covered`, how many of the 20 intervals hold it. `excess` is the median loss (minus the
log-likelihood over the number of rows) beyond the least one.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import statsmodels.formula.api as smf

import dpstats

NAMES = [
    *("age", "work", "weight", "degree", "education", "marital", "occupation", "relation", "race"),
    *("sex", "gain", "loss", "hours", "country", "income"),
]
FORMULA = "rich ~ age + education + C(sex) + hours + gain"
RELEASES = 20


def load(folder):
    parts = [
        pd.read_csv(Path(folder) / name, names=NAMES, skipinitialspace=True, comment="|")
        for name in ("adult.data", "adult.test")
    ]
    frame = pd.concat(parts, ignore_index=True)
    frame["rich"] = frame["income"].str.contains(">50K") * 1.0
    frame["sex"] = pd.Categorical(frame["sex"])
    return frame[["rich", "age", "education", "sex", "hours", "gain"]].dropna()


def main(folder):
    frame = load(folder)
    n = len(frame)
    exact = smf.logit(FORMULA, frame).fit(disp=0)
    rows = []
    for cov_type in ("nonrobust", "robust"):
        fits = [
            dpstats.logit(FORMULA, frame, eps=1, delta=n**-2.0, seed=seed, cov_type=cov_type)
            for seed in range(RELEASES)
        ]
        off = np.array([fit.params[exact.params.index] - exact.params for fit in fits])
        se = np.array([fit.bse[exact.params.index] for fit in fits])
        worse = [exact.llf - exact.model.loglike(fit.params[exact.params.index].to_numpy()) for fit in fits]
        for j, name in enumerate(exact.params.index):
            rows.append({
                "cov_type": cov_type, "rows": n, "coefficient": name,
                "error": np.median(np.abs(off[:, j])) / exact.bse.iloc[j],
                "standard error": np.median(se[:, j]) / exact.bse.iloc[j],
                "covered": int(np.sum(np.abs(off[:, j]) < 1.96 * se[:, j])),
                "excess": np.median(worse) / n,
            })  # fmt: skip
    table = pd.DataFrame(rows)
    print(table)
    table.to_csv(Path(__file__).with_suffix(".csv"), index=False, float_format="%.3g")


if __name__ == "__main__":
    main(sys.argv[1])
