"""The simulation of Cumings-Menon (2022), section 5, re-run; writes simulation.csv, figure:
plot_simulation.py.

``y = 1 + x + e``, ``x`` standard normal, ``e`` normal, Laplace or Student t with 3 degrees of freedom (the
text copy of the paper lost its formulas; these are three symmetric designs of growing tail weight). The
errors are those of the prediction at the 0.25 and 0.75 points of x. The line at these points, its
coefficients and the clamp of Medsweep are bounded by 1,000, where a method takes bounds. The methods that use
bounds of the data get the central 99 % of each variable's law.

"paper" rows: the same estimates with the paper's constants (alpha = eps / 2, beta = eps / (2 Q)) and its
whole budget on the noise. Run: python benchmarks/depth_estimators/simulation.py [methods]  (minutes, one
core)
"""

import platform
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import laplace, norm, t

import dpstats
from dpstats.depth import regression_levels
from dpstats.mechanisms import order_statistics as order
from dpstats.mechanisms.line_depths import LineDepths
from dpstats.mechanisms.median_slope import median_slope, smooth_slope_bound

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from constants import cumings_menon  # noqa: E402

LAWS = {"normal": norm(), "Laplace": laplace(), "t3": t(3)}
SIZES, BUDGETS, RUNS, DELTA = (50, 100, 200, 300, 400, 500), (4.0, 12.0), 100, 1e-6
POINT = norm.ppf(0.75)
BOX = np.array([[-1000.0, 1000.0]] * 2)


def at_points(params):
    intercept, slope = params
    return np.array([intercept - POINT * slope, intercept + POINT * slope])


def deepest_of_the_paper(x, y, eps, g):
    """Deepest regression with the paper's constants, released at the two points."""
    alpha, beta = cumings_menon(eps, DELTA, 2)
    lines = LineDepths.of(x / POINT, y)
    return np.clip(lines.values, *BOX.T) + g.laplace(0, lines.smooth_bound(BOX, beta) / alpha, 2)


def medsweep_of_the_paper(x, y, eps, g):
    """Its joint Medsweep with its constants: noise once on the slope, once on the intercept."""
    alpha, beta = cumings_menon(eps / 2, DELTA / 2)
    slope = median_slope(x, y, 1000.0) + g.laplace(0, smooth_slope_bound(x, y, 1000.0, beta) / alpha)
    rest = np.clip(np.sort(y - slope * x), -1000.0, 1000.0)
    scale = order.smooth_median_bound(rest, beta, -1000.0, 1000.0) / alpha
    return at_points([order.lower_median(rest) + g.laplace(0, scale), slope])


def methods(law, seed):
    y_reach = float(np.sqrt(norm.ppf(0.995) ** 2 + law.ppf(0.995) ** 2)) + 1
    data_bounds = {"x": (-norm.ppf(0.995), norm.ppf(0.995)), "y": (1 - y_reach, 1 + y_reach)}

    def public(fit):
        return lambda d, eps, g: at_points(fit(d, eps).params)

    table = {
        "deepest_regression": public(lambda d, eps: dpstats.deepest_regression("y ~ x", d, eps=eps,
            at=(-POINT, POINT), bounds={"y": (-1000, 1000)}, intervals=None, seed=seed())),
        "deepest_regression, no bounds": public(lambda d, eps: dpstats.deepest_regression("y ~ x", d, eps=eps,
            at=(-POINT, POINT), intervals=None, seed=seed())),
        "deepest_regression, smooth": public(lambda d, eps: dpstats.deepest_regression("y ~ x", d, eps=eps,
            delta=DELTA, mechanism="smooth", at=(-POINT, POINT), bounds={"y": (-1000, 1000)}, seed=seed())),
        "deepest regression, paper": lambda d, eps, g: deepest_of_the_paper(d["x"], d["y"], eps, g),
        "medsweep, sequential": public(lambda d, eps: dpstats.medsweep("y ~ x", d, eps=eps, delta=DELTA,
                                                                       seed=seed())),
        "medsweep, joint": public(lambda d, eps: dpstats.medsweep("y ~ x", d, eps=eps, delta=DELTA,
                                                                  variant="joint", clamp=1000, seed=seed())),
        "medsweep, paper": lambda d, eps, g: medsweep_of_the_paper(d["x"], d["y"], eps, g),
        "theil_sen": public(lambda d, eps: dpstats.theil_sen("y ~ x", d, eps=eps, bounds=data_bounds,
                                                             seed=seed())),
        "noisy_stats": public(lambda d, eps: dpstats.noisy_stats("y ~ x", d, eps=eps, bounds=data_bounds,
                                                                 seed=seed())),
        "gradient_descent": public(lambda d, eps: dpstats.gradient_descent("y ~ x", d, eps=eps, delta=DELTA,
                                                                           bounds=data_bounds, seed=seed())),
        "OLS, not private": lambda d, eps, g: at_points(np.polynomial.polynomial.polyfit(d["x"], d["y"], 1)),
        "deepest regression, not private": lambda d, eps, g: at_points(regression_levels(d["x"],
                                                                                         d["y"]).estimate),
        "medsweep, not private": lambda d, eps, g: at_points(dpstats.depth.medsweep(d["x"], d["y"]).fit),
    }  # fmt: skip
    return table


def main(only):
    """Run the methods named in `only`, or all, and put them in the place of their earlier rows."""
    print(platform.platform(), platform.python_version(), np.__version__)
    rows = []
    for law_name, law in LAWS.items():
        for n in SIZES:
            # as many random numbers as the methods like: the next sample does not depend on them
            g = np.random.default_rng([20220705, n])
            samples = []
            for _ in range(RUNS):
                x = g.normal(size=n)
                samples.append({"x": x, "y": 1 + x + law.rvs(n, random_state=g)})
            for eps in BUDGETS:
                for name, method in methods(law, lambda g=g: int(g.integers(2**31))).items():
                    if (only and name not in only) or ("not private" in name and eps != BUDGETS[0]):
                        continue
                    start, errors, failed = time.perf_counter(), [], 0
                    for sample in samples:
                        try:
                            errors.append(method(sample, eps, g) - at_points([1.0, 1.0]))
                        except (dpstats.ReleaseFailed, dpstats.ParameterError):  # the latter: too few rows
                            failed += 1
                    errors = np.array(errors).reshape(-1, 2)
                    errors = errors[np.isfinite(errors).all(axis=1)]
                    rows.append({
                        "law": law_name, "n": n, "eps": np.nan if "not private" in name else eps,
                        "method": name,
                        "mse": np.mean(errors**2), "mad": np.median(np.abs(errors)),
                        "mad_25": np.median(np.abs(errors[:, 0])), "mad_75": np.median(np.abs(errors[:, 1])),
                        "without_estimate": RUNS - len(errors),
                        "seconds": (time.perf_counter() - start) / RUNS,
                    })  # fmt: skip
            print(law_name, n, flush=True)
    frame = pd.DataFrame(rows)
    if only:
        before = pd.read_csv(HERE / "simulation.csv")
        frame = pd.concat([before[~before["method"].isin(only)], frame])
    frame.to_csv(HERE / "simulation.csv", index=False, float_format="%.4g")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1:])
