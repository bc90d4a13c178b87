"""A line that is released by its values at two points of the covariate."""

import functools
import math
from dataclasses import dataclass

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq

from dpstats._validation import check, fail, is_finite

__all__ = ["LineInterval", "check_anchors", "coefficients"]


def check_anchors(at):
    """Return `at` as an increasing pair of finite numbers, or None."""
    if at is None:
        return None
    ok = isinstance(at, list | tuple) and len(at) == 2
    ok = ok and all(is_finite(v) for v in at)
    if not ok or at[0] == at[1]:
        fail("at", at, "None or two different finite numbers, values of the covariate")
    return float(min(at)), float(max(at))


def _weights(at):
    a, b = at
    return np.array([[b, -a], [-1.0, 1.0]]) / (b - a)


def coefficients(values, at):
    """Intercept and slope of the line with `values` at two points, shape (2,).

    Examples
    --------
    >>> coefficients((1.0, 5.0), (0.0, 2.0))
    array([1., 2.])
    """
    return _weights(at) @ np.asarray(values, dtype=float)


@dataclass(frozen=True)
class LineInterval:
    """Intervals for intercept and slope that cover the privacy noise of a line's values at two points.

    Parameters
    ----------
    values : (float, float)
        Released values of the line at the points.
    scale : float
        The released scale of their noise.
    at : (float, float)
    rate : float
        As in :class:`~dpstats.mechanisms.smooth_sensitivity.NoiseInterval`.

    Notes
    -----
    A coefficient is ``w_1 v_1 + w_2 v_2``, so its noise is a weighted sum of two Laplace variables times
    ``scale exp(-L)``, ``L`` Laplace of rate `rate`; its quantile is public.
    """

    values: tuple[float, float]
    scale: float
    at: tuple[float, float]
    rate: float

    @classmethod
    def of(cls, values, scale, at, plan):
        """From a release by ``plan``, a :class:`~dpstats.mechanisms.smooth_release.SmoothPlan`."""
        rate = plan.noise.eps_scale / plan.noise.log_sensitivity
        return cls(tuple(map(float, values)), float(scale), at, rate)

    def conf_int(self, alpha):
        """The ends as a ``(2, 2)`` array."""
        alpha = check("alpha", alpha)
        half = [
            self.scale * weighted_quantile(*sorted(np.abs(w)), self.rate, alpha) for w in _weights(self.at)
        ]
        return coefficients(self.values, self.at)[:, None] + np.outer(half, [-1.0, 1.0])


def weighted_quantile(small, large, rate, alpha):
    """The ``1 - alpha`` quantile of ``|small Z_1 + large Z_2| exp(-L)``.

    `Z` is standard Laplace, and `L` Laplace of rate `rate`.
    """
    # rounded up, so that few different ratios are ever integrated
    return float(large) * _unit_quantile(math.ceil(64 * small / large) / 64, rate, alpha)


@functools.lru_cache(maxsize=4096)
def _unit_quantile(w, rate, alpha):
    def survival(c):
        """``P(|Z_1 + w Z_2| > c)``."""
        if w > 0.999:
            return (1 + c / 2) * math.exp(-c)
        return (math.exp(-c) - (w * w * math.exp(-c / w) if w else 0.0)) / (1 - w * w)

    def tail(log_c):
        def integrand(t):
            up, down = (math.exp(min(log_c + s * t / rate, 700)) for s in (1, -1))
            return 0.5 * math.exp(-t) * (survival(up) + survival(down))

        return quad(integrand, 0, 60, limit=200)[0]

    return math.exp(brentq(lambda log_c: tail(log_c) - alpha, -60, 60 + 60 / rate, xtol=1e-9))
