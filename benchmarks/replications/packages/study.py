"""Means, quantiles and regressions of other packages beside ours, at eps = 1.

    OMP_NUM_THREADS=1 python benchmarks/replications/packages/study.py [--dppack DIR]   # writes results.csv

DIR is the folder R of the sources of DPpack 0.2.2 (``dppack.R``). What docs/benchmarks.md has is not here,
the regressions of diffprivlib, DP-EBM and OpenDP's Theil-Sen; ../../glm/others.csv has logistic regressions.

The others are told bounds: `tight` ones, the 0.1 % and 99.9 % quantiles of the population, or `wide` ones as
an analyst would write who has not seen the data. Ours has none. ``dpstats.mean`` and ``ols`` have
delta = 1e-6; means and quantiles of the others and our quantiles are pure. Neighbours differ by one row added
or removed, except that OpenDP's mean and DPpack take the number of rows as public.

DPrivStats' ``dp_lm`` is computed from the equations of its source (0.1.0): least squares plus Gaussian noise
of sensitivity ``C (high - low) / least eigenvalue of X'X``, C being the longest row of X. It protects the
response alone: X is taken as public, and the residual variance has no noise.

Columns: `rmse` and `error` are the root mean square and the median absolute error, over those of the same
statistic without privacy; `coverage` and `width` are of 95 % intervals, where there are any, `width` over the
mean width without privacy (least squares) or over 3.92 standard deviations of the sample statistic.
"""

import argparse
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import opendp.prelude as dp
import pandas as pd
from scipy import stats

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from replications.inference.designs import DESIGNS, response_range  # noqa: E402
from replications.inference.methods import Rows  # noqa: E402
from replications.inference.study import least_squares  # noqa: E402

import dpstats  # noqa: E402
from dpstats.errors import DpstatsError  # noqa: E402
from dpstats.privacy.conversions import gdp_mu  # noqa: E402

EPS, DELTA, Z95 = 1.0, 1e-6, stats.norm.ppf(0.975)
LAWS = {  # law, wide bounds
    "normal, 50 and 10": (stats.norm(50, 10), (-3.0, 1_007.0)),
    "log-normal income": (stats.lognorm(0.6, scale=np.exp(10.5)), (0.0, 1e7)),
    "t3": (stats.t(3, loc=3.7), (-990.0, 1_013.0)),
}
STATISTICS = ("mean", "median", "quantile .9")
REGRESSIONS = (("uniform, d = 5", 1_000), ("isotropic, d = 5", 2_500), ("skewed, heteroskedastic", 10_000))


def main():
    """Every table, and the file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dppack", type=Path)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--output", type=Path, default=HERE / "results.csv")
    options = parser.parse_args()
    dp.enable_features("contrib", "honest-but-curious")
    found = []
    for which, (name, (law, wide)) in enumerate(LAWS.items()):
        for n in (1_000, 10_000):
            found += summaries(name, law, wide, n, np.random.default_rng([which, n]), options)
            print(name, n, flush=True)
    for which, (name, n) in enumerate(REGRESSIONS):
        found += regressions(name, n, which, options)
        print(name, n, flush=True)
    pd.DataFrame(found).to_csv(options.output, index=False, float_format="%.4g", lineterminator="\n")
    print(summary(pd.read_csv(options.output)))  # README.md has it


# Means and quantiles --------------------------------------------------------------------------------------


def summaries(name, law, wide, n, rng, options):
    """Rows of a law: the three statistics by every method."""
    sets = law.rvs(size=(options.runs, n), random_state=rng)
    truth = np.array([law.mean(), law.median(), law.ppf(0.9)])
    sample = np.column_stack([sets.mean(axis=1), *np.quantile(sets, [0.5, 0.9], axis=1)])
    tight = tuple(law.ppf([0.001, 0.999]))
    found = {("dpstats", "none"): np.array([ours(x, seed) for seed, x in enumerate(sets)])}
    for kind, bounds in (("tight", tight), ("wide", wide)):
        release = open_dp(n, bounds)
        found["OpenDP", kind] = np.array([release(x) for x in sets])
        if options.dppack:
            frame = pd.DataFrame(sets.T, columns=[f"s{i}" for i in range(len(sets))])
            limits = pd.DataFrame({"lower": [bounds[0]], "upper": [bounds[1]]})
            found["DPpack", kind] = r(options.dppack, "summary", frame, limits)
    for (method, bounds), fits in found.items():
        for j, statistic in enumerate(STATISTICS):
            fit = fits[:, j] if fits.ndim == 2 else fits[:, j, 0]
            row = {"design": name, "n": n, "what": statistic, "method": method, "bounds": bounds}
            row |= errors(fit[:, None], sample[:, j : j + 1], truth[j : j + 1])
            if fits.ndim == 3:
                row |= intervals(fits[:, j : j + 1], truth[j : j + 1], 2 * Z95 * np.std(sample[:, j]))
            yield row


def ours(x, seed):
    """Mean, median and quantile with their intervals, without bounds: (3, 3)."""
    frame = pd.DataFrame({"y": x})
    fits = (
        dpstats.mean("y ~ 1", frame, eps=EPS, delta=DELTA, seed=seed),
        dpstats.median("y ~ 1", frame, eps=EPS, seed=seed),
        dpstats.quantile("y ~ 1", frame, q=0.9, eps=EPS, seed=seed),
    )
    return np.array([[fit.params.iloc[0], *fit.conf_int().iloc[0]] for fit in fits])


def open_dp(n, bounds, candidates=2_001):
    """Releases of a data set: mean of clamped data plus Laplace noise, quantiles among even candidates."""
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=n)
    space = domain, dp.symmetric_distance()
    mean = dp.binary_search_chain(
        lambda scale: space >> dp.t.then_clamp(bounds) >> dp.t.then_mean() >> dp.m.then_laplace(scale), 2, EPS
    )
    grid = list(np.linspace(*bounds, candidates))
    free = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    quantiles = [
        dp.binary_search_chain(
            lambda scale, q=q: dp.m.make_private_quantile(*free, dp.max_divergence(), grid, q, scale), 1, EPS
        )
        for q in (0.5, 0.9)
    ]
    return lambda x: [measure(x.tolist()) for measure in (mean, *quantiles)]


def r(folder, what, rows, bounds):
    """DPpack in R."""
    with tempfile.TemporaryDirectory() as place:
        files = [str(Path(place) / name) for name in ("rows.csv", "bounds.csv", "out.csv")]
        rows.to_csv(files[0], index=False)
        bounds.to_csv(files[1], index=False)
        script = str(HERE / "dppack.R")
        subprocess.run(["Rscript", script, str(folder), what, *files], check=True, capture_output=True)
        return pd.read_csv(files[2], header=None).to_numpy()


# Regressions ------------------------------------------------------------------------------------------------


def regressions(name, n, which, options):
    """Rows of a design: ``ols``, DPrivStats and DPpack."""
    design, response = DESIGNS[name], response_range(name)
    exact, own, dp_lm, parts = [], [], [], []
    for i in range(options.runs):
        frame, Z = design.draw(n, np.random.default_rng([which, i]))
        y = frame["y"].to_numpy()
        rows = Rows(Z, y, design.low, response, design.mean, design.scale, design.noise, design.back)
        beta, error = least_squares(rows)
        exact.append(np.column_stack([beta, beta - Z95 * error, beta + Z95 * error]))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fit = dpstats.ols(design.formula, frame, eps=EPS, delta=DELTA, seed=i)
            own.append(np.column_stack([fit.params, fit.conf_int()]))
        except DpstatsError:
            own.append(np.full((len(beta), 3), np.nan))
        dp_lm.append(dprivstats(rows, np.random.default_rng([which, i, 1])))
        parts.append(pd.DataFrame(Z, columns=[f"z{j}" for j in range(Z.shape[1])]).assign(y=y, set=i))
    exact = np.array(exact)
    found = {("dpstats", "none"): np.array(own), ("DPrivStats, protects y alone", "tight"): np.array(dp_lm)}
    if options.dppack:
        low, high = np.append(design.low, response[0]), np.append(np.ones(len(design.low)), response[1])
        limits = pd.DataFrame({"lower": low, "upper": high})
        fits = r(options.dppack, "lm", pd.concat(parts), limits) @ design.back.T
        found["DPpack", "tight"] = fits
    for (method, bounds), fits in found.items():
        row = {"design": name, "n": n, "what": "coefficients", "method": method, "bounds": bounds}
        row |= errors(fits if fits.ndim == 2 else fits[..., 0], exact[..., 0], design.truth)
        if fits.ndim == 3:
            row |= intervals(fits, design.truth, np.mean(exact[..., 2] - exact[..., 1], axis=0))
        yield row


def dprivstats(rows, rng):
    """``dp_lm`` and its analytical interval."""
    low, high = rows.response
    Z, y = rows.Z, np.clip(rows.y, low, high)
    inverse = np.linalg.inv(Z.T @ Z)
    reach = np.sqrt(np.max(np.sum(Z**2, axis=1)))
    sigma = reach * (high - low) * np.linalg.eigvalsh(inverse)[-1] / gdp_mu(EPS, DELTA)
    beta = inverse @ (Z.T @ y) + sigma * rng.standard_normal(Z.shape[1])
    variance = np.sum((y - Z @ beta) ** 2) / (len(y) - Z.shape[1])
    cover = rows.back @ (variance * inverse + sigma**2 * np.eye(Z.shape[1])) @ rows.back.T
    beta, half = rows.back @ beta, Z95 * np.sqrt(np.diag(cover))
    return np.column_stack([beta, beta - half, beta + half])


def summary(table):
    """`rmse` as a Markdown table; behind ours, and where there is one, the coverage of the interval in %."""
    names = list(dict.fromkeys(zip(table["method"], table["bounds"], strict=True)))
    head = [m if b == "none" else f"{m}, {b}" for m, b in names]
    lines = ["| data | n | what | " + " | ".join(head) + " |", "|---" * (3 + len(head)) + "|"]
    for (design, n, what), part in table.groupby(["design", "n", "what"], sort=False):
        cells = {}
        for row in part.to_dict("records"):
            given = np.isfinite(row["coverage"])
            cells[row["method"], row["bounds"]] = f"{row['rmse']:.3g}" + (
                f" ({100 * row['coverage']:.0f})" if given else ""
            )
        line = [design, f"{n:,}", what, *(cells.get(name, "") for name in names)]
        lines.append("| " + " | ".join(line) + " |")
    return "\n".join(lines)


# Measures ---------------------------------------------------------------------------------------------------


def errors(fits, exact, truth):
    """`rmse` and `error`, medians over coefficients, of releases that there are."""
    off, least = fits - truth, exact - truth
    return {
        "released": float(np.mean(np.isfinite(fits))),
        "rmse": np.median(np.sqrt(np.nanmean(off**2, axis=0) / np.mean(least**2, axis=0))),
        "error": np.median(np.nanmedian(np.abs(off), axis=0) / np.median(np.abs(least), axis=0)),
    }


def intervals(fits, truth, reference):
    """`coverage` of the intervals that there are, and their median width."""
    low, high = fits[..., 1], fits[..., 2]
    given = np.isfinite(high - low)
    covered = (low <= truth) & (truth <= high)
    width = np.nanmedian(high - low, axis=0) / reference
    return {"coverage": np.mean(covered[given]), "given": np.mean(given), "width": float(np.median(width))}


if __name__ == "__main__":
    main()
