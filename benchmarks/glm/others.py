"""``logit`` beside the logistic regressions of diffprivlib and of R's DPpack, which need bounds and are told
the true ones; writes others.csv.

Run: python benchmarks/glm/others.py ADULT DPPACK (half an hour; diffprivlib 0.6.6 needs scikit-learn before
1.7). ADULT: the folder of ``adult.py``; DPPACK: the folder R of the sources of DPpack 0.2.2. eps = 1; ours
has delta = 1e-6, theirs 0.

A row is a design and a method, over 40 data sets of 20,000 rows with a release each (Adult: 40 releases of
all rows). `loss`: median held-out log-loss beyond that of the maximum-likelihood estimate of the data set, on
200,000 fresh rows (of Adult, on the same rows). `error`: median over coefficients and releases of the
distance to that estimate, in units of its standard error. `loss se`, `error se`: standard errors of both
medians, by a bootstrap over the releases. The others have their columns centred and scaled by their true
means and standard deviations.
diffprivlib is told the true largest norm of a row, DPpack the true range of every column (objective
perturbation); both are run with three strengths of their ridge.
"""

import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import statsmodels.api as sm
from adult import FORMULA as ADULT
from adult import load
from designs import DESIGNS, FORMULA, draw
from diffprivlib.models import LogisticRegression

import dpstats

ROWS, FRESH, RELEASES = 20_000, 200_000, 40
STRENGTHS = 0.01, 1.0, 100.0


def theirs(Z, y, strength, seed):
    norm = float(np.max(np.linalg.norm(Z, axis=1)))
    model = LogisticRegression(epsilon=1, data_norm=norm, C=strength, random_state=seed, max_iter=1000)
    model.fit(Z, y)
    return np.append(model.intercept_, model.coef_.ravel())


def dppack(folder, Z, y, strength, seed, releases=1):
    with tempfile.TemporaryDirectory() as place:
        rows, out = Path(place) / "rows.csv", Path(place) / "out.csv"
        pd.DataFrame(Z).assign(y=y).to_csv(rows, index=False)
        script = Path(__file__).with_name("dppack.R")
        given = map(str, (folder, rows, out, strength, seed, releases))
        subprocess.run(["Rscript", script, *given], check=True, capture_output=True)
        return list(pd.read_csv(out, header=None).to_numpy())


def loss(beta, Z, y):
    eta = beta[0] + Z @ beta[1:]
    return float(np.mean(np.logaddexp(0, eta) - y * eta))


def compare(X, y, fresh, ours, sources, seed, releases=1):
    """By method, excess losses and errors; `ours` are our coefficients in the columns' units."""
    middle, scale = X.mean(axis=0), X.std(axis=0)
    Z = (X - middle) / scale
    fresh_Z, fresh_y = (fresh[0] - middle) / scale, fresh[1]
    exact = sm.Logit(y, sm.add_constant(Z)).fit(disp=0)
    least = loss(exact.params, fresh_Z, fresh_y)
    found = {"dpstats.logit": [np.append(b[0] + b[1:] @ middle, b[1:] * scale) for b in ours]}
    seeds = range(seed, seed + releases)
    for strength in STRENGTHS:
        found[f"diffprivlib, C = {strength:g}"] = [theirs(Z, y, strength, s) for s in seeds]
    for strength in STRENGTHS:
        found[f"DPpack, gamma = {strength:g}"] = dppack(sources, Z, y, strength, seed, releases)
    return {
        method: [
            (loss(b, fresh_Z, fresh_y) - least, np.abs(b - exact.params) / exact.bse) for b in betas
        ]
        for method, betas in found.items()
    }  # fmt: skip


def medians(name, found, rows):
    """Rows of the table."""
    g = np.random.default_rng(0)
    for method, pairs in found.items():
        losses, errors = np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])
        again = g.integers(0, len(losses), (1000, len(losses)))
        yield {
            "design": name, "method": method, "rows": rows, "releases": len(losses),
            "loss": np.median(losses), "loss se": np.std(np.median(losses[again], axis=1)),
            "error": np.median(errors), "error se": np.std([np.median(errors[k]) for k in again]),
        }  # fmt: skip


def main(folder, sources):
    table = []
    for name in (design for design in DESIGNS if design.startswith("logit")):
        fresh, _, _ = draw(name, FRESH, 10_000)
        new, found = fresh[["x1", "x2", "x3"]].to_numpy(), {}
        for seed in range(RELEASES):
            frame, _, _ = draw(name, ROWS, seed)
            fits = [dpstats.logit(FORMULA, frame, eps=1, seed=seed).params.to_numpy()]
            given = frame[["x1", "x2", "x3"]].to_numpy(), frame["y"].to_numpy()
            one = compare(*given, (new, fresh["y"].to_numpy()), fits, sources, seed)
            for method, pairs in one.items():
                found.setdefault(method, []).extend(pairs)
        table += medians(name, found, ROWS)
        print(pd.DataFrame(table[-7:]).to_string(), flush=True)
    frame = load(folder)
    columns = ["sex", "age", "education", "hours", "gain"]
    X, y = frame.assign(sex=frame["sex"].cat.codes)[columns].to_numpy(float), frame["rich"].to_numpy()
    fits = [dpstats.logit(ADULT, frame, eps=1, seed=s).params.to_numpy() for s in range(RELEASES)]
    table += medians("Adult", compare(X, y, (X, y), fits, sources, 0, RELEASES), len(y))
    table = pd.DataFrame(table)
    print(table.to_string())
    table.to_csv(Path(__file__).with_suffix(".csv"), index=False, float_format="%.3g")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(*sys.argv[1:])
