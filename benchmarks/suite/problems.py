"""Regression problems of the accuracy study: eight real data sets, synthetic ones, and one-covariate
versions."""

import functools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import dpstats

SHIPPED = Path(__file__).parents[1] / "data"
# response, and the covariate of the one-covariate version
REAL = {
    "diamonds": ("price", "carat"),
    "california": ("median_house_value", "median_income"),
    "nba": ("PTS_home", "FG_PCT_home"),
    "garbage": ("REFUSETONSCOLLECTED", "PAPERTONSCOLLECTED"),
    "kc_house": ("price", "sqft_living"),
    "bike_sharing": ("cnt", "temp"),
    "scorecard": ("earnings_med", "pred_degree_awarded_ipeds"),
    "wine_quality": ("quality", "alcohol"),
}
SYNTHETIC = ("synthetic", "collinear", "outliers")
ONE_COVARIATE_ROWS = 1_000
ALL, ONE = "all", "one"


@dataclass(frozen=True)
class Problem:
    """A response, its covariates, and the rows that count for the score.

    Attributes
    ----------
    formula : str
    frame : DataFrame
        What estimators with a formula are given.
    X : (n, d) array
        The same columns for those without, no constant.
    y : (n,) array
    scored : (n,) bool array
        Rows of the R-squared; all but the planted outliers.
    """

    formula: str
    frame: pd.DataFrame
    X: np.ndarray
    y: np.ndarray
    scored: np.ndarray

    def r_squared(self, predicted):
        """In-sample R-squared on the scored rows."""
        y, error = self.y[self.scored], (self.y - predicted)[self.scored]
        return float(1 - np.mean(error**2) / np.var(y))


def available(folder):
    """Names of the data sets that can be loaded, and of those that cannot; `folder` may be None."""
    found = [name for name in REAL if name == "diamonds" or _path(name, folder) is not None]
    return [*found, "headline", *SYNTHETIC], [name for name in REAL if name not in found]


def sets(folder):
    """(name, columns) of every problem that can be loaded."""
    names = available(folder)[0]
    return [(name, ALL) for name in names] + [(name, ONE) for name in names if name in REAL]


@functools.lru_cache(maxsize=4)
def load(name, columns, folder):
    """The problem `name` with all its columns (``"all"``) or one covariate and few rows (``"one"``)."""
    if name in SYNTHETIC:
        X, y, scored = globals()[f"_{name}"](np.random.default_rng(1))
        frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]).assign(y=y)
        return _problem(frame, "y", list(frame.columns[:-1]), scored)
    if name == "headline":
        frame = dpstats.datasets.load_diamonds()
        dummies = pd.get_dummies(frame["clarity"], drop_first=True, dtype=float)
        X = np.column_stack([dummies, frame["carat"]])
        return Problem(
            "price ~ carat + clarity", frame, X, frame["price"].to_numpy(float), np.ones(len(frame), bool)
        )
    frame, (response, covariate) = _real(name, folder), REAL[name]
    if columns == ONE:
        rows = np.random.default_rng(20261121).choice(len(frame), ONE_COVARIATE_ROWS, replace=False)
        return _problem(frame.iloc[np.sort(rows)].reset_index(drop=True), response, [covariate])
    return _problem(frame, response, [c for c in frame.columns if c != response])


def _problem(frame, response, covariates, scored=None):
    formula = f"{response} ~ " + " + ".join(f'Q("{c}")' for c in covariates)
    frame = frame[[*covariates, response]]
    if scored is None:
        scored = np.ones(len(frame), bool)
    return Problem(formula, frame, frame[covariates].to_numpy(float), frame[response].to_numpy(float), scored)


def _real(name, folder):
    if name == "diamonds":
        frame = dpstats.datasets.load_diamonds()
        grades = {c: frame[c].cat.codes + 1 for c in ("cut", "color", "clarity")}
        return frame.assign(**grades).astype(float)
    return pd.read_parquet(_path(name, folder)).astype(float)


def _path(name, folder):
    folders = [SHIPPED] if folder is None else [SHIPPED, Path(folder)]
    return next((path for f in folders if (path := f / f"{name}.parquet").is_file()), None)


def _synthetic(rng):
    """The linear problem of Amin et al. (2022): 10 informative features, noise of standard deviation 10."""
    X = rng.standard_normal((22_000, 10))
    return X, X @ (100 * rng.random(10)) + 10 * rng.standard_normal(22_000), np.ones(22_000, bool)


def _collinear(rng):
    """Equicorrelated columns (0.95) in units from a thousandth to a thousand, some far from zero."""
    n, d = 20_000, 8
    Z = np.sqrt(0.95) * rng.standard_normal((n, 1)) + np.sqrt(0.05) * rng.standard_normal((n, d))
    y = Z @ rng.choice([-1.0, 1.0, 2.0], d) + 2 * rng.standard_normal(n)
    return 10.0 ** np.linspace(-3, 3, d) * (Z + np.arange(d) ** 2), 1e5 * (y + 10), np.ones(n, bool)


def _outliers(rng):
    """Three per cent of the responses moved by 50 standard deviations of the noise, where x0 is large; not
    scored."""
    n = 20_000
    X = rng.standard_normal((n, 5))
    y = 3 + X @ [1.0, -1.0, 0.5, 2.0, 0.0] + rng.standard_normal(n)
    moved = (rng.random(n) < 0.06) & (X[:, 0] > 0)
    return X, np.where(moved, y + 50, y), ~moved
