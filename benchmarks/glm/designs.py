"""Simulated designs for ``logit`` and ``poisson`` whose coefficients are known."""

import numpy as np
import pandas as pd

__all__ = ["DESIGNS", "draw"]

FORMULA = "y ~ x1 + x2 + x3"
DESIGNS = {
    "logit, balanced": [-6.67, 1 / 6, -0.3, 0.5],
    "logit, 2 % events": [-11.1, 1 / 6, -0.3, 0.5],
    "logit, VIF 20": [-6.67, 1 / 6, -0.3, 0.5],
    "logit, rare dummy": [-6.67, 1 / 6, -0.3, 0.5],
    "logit, skewed covariate": [-0.5, 0.3, -0.3, 0.5],
    "logit, strong effects": [-40.0, 1.0, -2.0, 0.5],
    "poisson": [-5.67, 1 / 6, -0.3, 0.5],
    "poisson, mostly zeros": [-9.5, 1 / 6, -0.3, 0.5],
    "poisson, large counts": [-3.0, 1 / 6, -0.3, 0.5],
    "poisson, skewed covariate": [0.2, 0.1, -0.3, 0.5],
    "poisson, overdispersed": [-5.67, 1 / 6, -0.3, 0.5],
    "poisson, zero-inflated": [-5.67, 1 / 6, -0.3, 0.5],
    "poisson, overdispersed, exponential covariate": [0.2, 0.4, 0.0, 0.3],
    "poisson, overdispersed, exponential covariate, eps = 3": [0.2, 0.4, 0.0, 0.3],
}
"""Coefficients of the constant; of a column about 40 with the standard deviation 3, or of a log-normal or an
exponential one; of a normal one; and of a balanced dummy, or one of 2 % of the rows."""
_ZEROS = 0.7


def draw(name: str, rows: int, seed: int) -> tuple[pd.DataFrame, np.ndarray, str]:
    """A data set, the coefficients of the mean, and the name of the estimator."""
    rng = np.random.default_rng([2024, seed])
    g = rng.standard_normal((rows, 3))
    x1 = np.exp(g[:, 0]) if "skewed" in name else 40 + 3 * g[:, 0]
    if "exponential" in name:
        x1 = rng.exponential(size=rows)
    x2 = np.sqrt(0.95) * g[:, 0] + np.sqrt(0.05) * g[:, 1] if "VIF" in name else g[:, 1]
    x3 = rng.random(rows) < 0.02 if "rare dummy" in name else g[:, 2] > 0
    frame = pd.DataFrame({"x1": x1, "x2": x2, "x3": x3.astype(float)})
    beta = np.array(DESIGNS[name])
    eta = beta[0] + frame.to_numpy() @ beta[1:]
    if name.startswith("logit"):
        return frame.assign(y=(rng.random(rows) < 1 / (1 + np.exp(-eta))) * 1.0), beta, "logit"
    mean = np.exp(eta)
    if "overdispersed" in name:
        shape = 1.0 if "exponential" in name else 0.5
        mean = mean * rng.gamma(shape, 1 / shape, rows)
    if "zero-inflated" in name:
        mean = mean * (rng.random(rows) >= _ZEROS)
        beta = beta + [np.log(1 - _ZEROS), 0, 0, 0]
    return frame.assign(y=rng.poisson(mean) * 1.0), beta, "poisson"
