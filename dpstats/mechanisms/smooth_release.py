"""What the estimators by smooth sensitivity share: the budget with and without bounds, and the release itself.

Argument: ``docs/privacy/smooth_sensitivity.md``.
"""

import functools
import math
from dataclasses import dataclass

from dpstats._validation import check, fail, one_of
from dpstats.errors import ParameterError, ReleaseFailed
from dpstats.mechanisms.ptr import passes, threshold
from dpstats.mechanisms.smooth_sensitivity import (
    NoiseInterval,
    SmoothNoise,
    calibrate,
    levels_needed,
    truncated,
    tuned,
)
from dpstats.mechanisms.student import StudentNoise
from dpstats.privacy.guarantee import KINDS, Guarantee, Spend

__all__ = ["GUARANTEES", "SmoothPlan", "check_guarantee", "smooth_release"]

GUARANTEES = ("approximate", "random")
_TEST = {"laplace": 0.25, "student": 0.18}
"""Share of eps for the safety test when there are no bounds."""


def check_guarantee(guarantee, gamma):
    """Validate the parameters of the random-DP variants; returns `gamma`."""
    one_of("guarantee", guarantee, GUARANTEES)
    if guarantee == "random":
        return check("gamma", gamma)
    if gamma is not None:
        fail("gamma", gamma, "None unless guarantee='random'")
    return None


@dataclass(frozen=True)
class SmoothPlan:
    """Public facts of one release by smooth sensitivity.

    Attributes
    ----------
    guarantee : Guarantee
    noise : SmoothNoise or StudentNoise
    rows : int
        Handed in.
    levels : int or None
        ``K`` of the truncation when there are no bounds.
    eps_test, delta : float
        Budget of the test, and the one delta of test and release.
    box : tuple of (float, float) or None
        Public bounds of the estimates.
    gamma : float or None
        For random DP.
    """

    guarantee: Guarantee
    noise: SmoothNoise | StudentNoise
    rows: int
    levels: int | None
    eps_test: float
    delta: float
    box: tuple | None
    gamma: float | None

    @classmethod
    def of(
        cls,
        method,
        what,
        d,
        eps,
        delta,
        rows,
        box,
        gamma,
        seeded,
        share,
        deepest,
        deepest_level,
        how="bounds=",
        law="laplace",
    ):
        """Divide the budget.

        Parameters
        ----------
        method, what : str
            Name of the estimator, and of what it releases.
        d : int
            Number of released coordinates.
        box : sequence of (float, float) or None
            Bounds of the estimates; None for the test without bounds (unless `gamma` is given).
        share : float
            Levels beyond this share of the rows are not used without bounds.
        deepest : float
            Share of the rows that the largest depth reaches in any data.
        deepest_level : callable
            ``deepest_level(rows)`` is the last level that can be bounded for any data of that many rows.
        how : str
            How bounds are given, for the message.
        law : {"laplace", "student"}
            Of the noise; ``"student"`` is pure DP by itself, for one coordinate.
        """
        tested = box is None and gamma is None
        eps_test = _TEST[law] * eps if tested else 0.0
        # without bounds the test has to pass, which wants beta and alpha alike
        if law == "student":
            noise, spent = StudentNoise.of(eps - eps_test, None if tested else rows, deepest), 0.0
        else:
            constants = calibrate if tested else functools.partial(tuned, rows=rows, deepest=deepest)
            noise, spent = SmoothNoise.of(eps - eps_test, delta, d, constants), delta
        levels = None
        eps_scale = 0.0 if law == "student" else noise.eps_scale
        spends = [
            *([Spend("noise scale", "Laplace noise on its logarithm", eps_scale)] if eps_scale else []),
            Spend(what, f"{law.capitalize()} noise of smooth sensitivity", eps - eps_scale, spent),
        ]
        if tested:
            levels = levels_needed(rows, share, eps_test, delta, noise.beta)
            if min(levels - 1, deepest_level(rows) - levels) - 1 < threshold(eps_test, delta):
                raise ParameterError(
                    f"{method}: {rows:,} rows are too few for the safety test that takes the place of bounds at "
                    f"eps = {eps:g}, delta = {delta:g}. Give {how}, or a larger eps."
                )
            # behind a test that pays delta once, the steps are no private steps by themselves
            spent = delta
            spends = [
                Spend(
                    f"{what} and its noise scale" if eps_scale else what,
                    f"safety test, then {law.capitalize()} noise",
                    eps,
                    delta,
                )
            ]
        kind = KINDS[2] if gamma is not None else KINDS[1] if spent else KINDS[0]
        guarantee = Guarantee(eps, spent, "substitution", kind, tuple(spends), gamma=gamma, seeded=seeded)
        return cls(guarantee, noise, rows, levels, eps_test, delta, box, gamma)

    @property
    def level_count(self):
        """How many levels the test may look at: enough for it to pass with certainty."""
        ample = threshold(self.eps_test, self.delta) + math.ceil(40 / self.eps_test)
        return self.levels + min(self.levels, ample) + 1

    def interval(self, estimates, scales):
        """Intervals that cover Laplace noise; None for Student noise, whose scale is not released."""
        if self.noise.law == "student":
            return None
        rate = self.noise.eps_scale / self.noise.log_sensitivity
        return NoiseInterval(tuple(map(float, estimates)), tuple(map(float, scales)), rate)


def smooth_release(method, values, plan, rng, *, bound=None, levels=None, how="bounds="):
    """Release a statistic with noise of its smooth bound, behind the test if there are no bounds.

    Parameters
    ----------
    values : (d,) array_like
        The exact statistic.
    plan : SmoothPlan
    rng : Randomness
    bound : float, optional
        ``S(D)``; where there are bounds.
    levels : (plan.level_count,) array, optional
        ``A_0, A_1, ...``; where there are none.

    Returns
    -------
    values : (d,) ndarray
    scale : float or None
        The released scale of their noise; None for Student noise.

    Raises
    ------
    ReleaseFailed
        If the test fails.

    Notes
    -----
    **Privacy.** ``plan.guarantee``: the release of ``plan.noise`` (Laplace or Student), behind propose-test-release
    with the margin of :func:`~dpstats.mechanisms.smooth_sensitivity.truncated` where there are no bounds.
    """
    if levels is not None:
        bound, margin = truncated(levels, plan.levels, plan.noise.beta)
        if not passes(margin, plan.eps_test, plan.delta, rng):
            raise ReleaseFailed(
                f"{method}: the safety test that takes the place of bounds failed, so there is no estimate. Give "
                f"{how}; a larger eps or delta, or more rows, would help too."
            )
    return plan.noise.release(values, bound, rng)
