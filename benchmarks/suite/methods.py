"""What is compared: dpstats with its defaults and with published settings, other packages, and non-private
fits.

Every method is a function ``(problem, eps, delta, seed) -> predictions`` for the rows of the problem. Other
packages need ranges of the columns and get the non-private ones, which is in their favour.
"""

import inspect
import warnings
from dataclasses import dataclass

import numpy as np

import dpstats
from suite.problems import ALL, ONE

OURS, PUBLISHED, PEER, PLAIN = "dpstats", "dpstats, published settings", "other package", "not private"


@dataclass(frozen=True)
class Method:
    """A method of the accuracy study.

    Attributes
    ----------
    kind : str
        :data:`OURS`, :data:`PUBLISHED`, :data:`PEER` or :data:`PLAIN`.
    predict : callable
    columns : tuple of str
        The kinds of problem it takes part in.
    share : float
        Share of the runs that it gets; slow methods get fewer.
    package : str
        The distribution whose version is recorded.
    """

    kind: str
    predict: object
    columns: tuple
    share: float = 1.0
    package: str = "dpstats"


def _ours(name, ranges=False, **own):
    function = getattr(dpstats, name)
    takes_delta = "delta" in inspect.signature(function).parameters

    def predict(problem, eps, delta, seed):
        given = {"eps": eps, "seed": seed} | own
        if takes_delta:
            given["delta"] = delta
        if ranges:
            given["bounds"] = {c: (float(v.min()), float(v.max())) for c, v in problem.frame.items()}
        return np.asarray(function(problem.formula, problem.frame, **given).predict(problem.frame))

    return predict


def _diffprivlib(problem, eps, delta, seed):
    from diffprivlib.models import LinearRegression

    X, y = problem.X, problem.y
    model = LinearRegression(
        epsilon=eps, bounds_X=(X.min(0), X.max(0)), bounds_y=(y.min(), y.max()), random_state=seed
    )
    return model.fit(X, y).predict(X)


def _dp_ebm(problem, eps, delta, seed):
    from interpret.privacy import DPExplainableBoostingRegressor

    X, y = problem.X, problem.y
    model = DPExplainableBoostingRegressor(
        epsilon=eps, delta=delta, random_state=seed, n_jobs=1, feature_types=["continuous"] * X.shape[1],
        privacy_bounds=np.column_stack([X.min(0), X.max(0)]), privacy_target_min=y.min(),
        privacy_target_max=y.max(),
    )  # fmt: skip
    return model.fit(X, y).predict(X)


def _opendp(problem, eps, delta, seed):
    import opendp.prelude as dp

    dp.enable_features("contrib", "honest-but-curious", "idealized-numerics")
    x, y = problem.X[:, 0], problem.y

    def regression(scale):
        return dp.sklearn.linear_model.LinearRegression(
            dp.max_divergence(), x_bounds=[(x.min(), x.max())], y_bounds=(y.min(), y.max()), scale=scale
        )

    scale = regression(1.0).measurement.map(1) / eps  # the privacy map is proportional to 1 / scale
    return regression(scale).fit(problem.X, y).predict(problem.X)


def least_squares(X, y):
    """Coefficients of least squares with a constant; the least of them where there are many."""
    Z = np.column_stack([np.ones(len(X)), X])
    return np.linalg.lstsq(Z, y, rcond=None)[0]


def _ols(problem, eps, delta, seed):
    b = least_squares(problem.X, problem.y)
    return b[0] + problem.X @ b[1:]


def _statsmodels(fit):
    """A method that fits standardised columns, as its algorithm asks for."""

    def predict(problem, eps, delta, seed):
        X, y = problem.X, problem.y
        Z = np.column_stack([np.ones(len(X)), (X - X.mean(0)) / X.std(0)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # rank-deficient columns
            return y.std() * (Z @ np.asarray(fit(y / y.std(), Z).params))

    return predict


def _huber(y, Z):
    import statsmodels.api as sm

    return sm.RLM(y, Z, M=sm.robust.norms.HuberT()).fit()


def _lad(y, Z):
    import statsmodels.api as sm

    return sm.QuantReg(y, Z).fit(0.5, max_iter=5_000)


BOTH = (ALL, ONE)
METHODS = {
    "ols": Method(OURS, _ours("ols"), BOTH),
    "tukey_em": Method(OURS, _ours("tukey_em"), (ALL,)),
    "boosted_adassp": Method(OURS, _ours("boosted_adassp"), BOTH),
    "adassp": Method(OURS, _ours("adassp"), BOTH),
    "huber": Method(OURS, _ours("huber"), BOTH),
    "gradient_descent": Method(OURS, _ours("gradient_descent"), BOTH),
    "medsweep": Method(OURS, _ours("medsweep"), BOTH, 0.5),
    "deepest_regression": Method(OURS, _ours("deepest_regression"), (ONE,), 0.5),
    "theil_sen": Method(OURS, _ours("theil_sen"), (ONE,)),
    "noisy_stats, ranges given": Method(OURS, _ours("noisy_stats", ranges=True), (ONE,)),
    "TukeyEM, its axes": Method(PUBLISHED, _ours("tukey_em", whiten=False), (ALL,)),
    "BoostedAdaSSP, fixed": Method(PUBLISHED, _ours("boosted_adassp", standardize=False), (ALL,)),
    "AdaSSP, fixed": Method(PUBLISHED, _ours("adassp", standardize=False), (ALL,)),
    "diffprivlib, ranges given": Method(PEER, _diffprivlib, BOTH, 1.0, "diffprivlib"),
    "DP-EBM, ranges given": Method(PEER, _dp_ebm, (ALL,), 0.2, "interpret-core"),
    "OpenDP Theil-Sen, ranges given": Method(PEER, _opendp, (ONE,), 1.0, "opendp"),
    "OLS": Method(PLAIN, _ols, BOTH, 0.0, "numpy"),
    "Huber": Method(PLAIN, _statsmodels(_huber), BOTH, 0.0, "statsmodels"),
    "LAD": Method(PLAIN, _statsmodels(_lad), BOTH, 0.0, "statsmodels"),
}
