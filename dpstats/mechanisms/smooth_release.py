"""What the estimators by smooth sensitivity share: the budget with and without bounds, and the release.

``A_k`` bounds the local sensitivity at distance ``k``: how far one more edit can move the statistic after
``k`` edits. Argument: ``docs/privacy/smooth_sensitivity.md``.
"""

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from dpstats._format import too_few
from dpstats._types import Floats
from dpstats.errors import ParameterError, ReleaseFailed
from dpstats.mechanisms.calibration import calibrate
from dpstats.mechanisms.ptr import passes, threshold
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.smooth_sensitivity import (
    NoiseInterval,
    SmoothNoise,
    distances_needed,
    limited,
    truncated,
    tuned,
)
from dpstats.mechanisms.student import StudentNoise
from dpstats.privacy.guarantee import KINDS, Guarantee, Spend

__all__ = ["SmoothBudget", "SmoothRelease", "SmoothStatistic", "smooth_release"]

Box = Floats | Sequence[tuple[float, float]]

_TEST = {"laplace": 0.25, "student": 0.18}
"""Share of the budget for the safety test when there are no bounds."""


@dataclass(frozen=True)
class SmoothStatistic:
    """Public facts of a statistic that is released with noise of smooth sensitivity.

    Attributes
    ----------
    method, what : str
        Name of the estimator, and of what it releases.
    d : int
        Number of released coordinates.
    deepest : float
        Share of the rows that the largest depth reaches in any data.
    farthest : callable
        ``farthest(rows)`` is the greatest distance at which ``A_k`` can be bounded for any data of that many
        rows.
    share : float
        Without bounds, distances beyond this share of the rows are not used.
    law : {"laplace", "student"}
        Of the noise; ``"student"`` is pure DP by itself, for one coordinate.
    how : str
        How bounds are given, for messages.
    exact : bool
        Whether the statistic is computed without rounding.
    """

    method: str
    what: str
    d: int
    deepest: float
    farthest: Callable[[int], int]
    share: float
    law: str = "laplace"
    how: str = "bounds="
    exact: bool = False


@dataclass(frozen=True)
class SmoothBudget:
    """Public facts of one release by smooth sensitivity.

    Attributes
    ----------
    statistic : SmoothStatistic
    guarantee : Guarantee
        Of the whole, with the steps before this release.
    noise : SmoothNoise or StudentNoise
    rows : int
        Handed in.
    distances : int or None
        ``K`` of the truncation when there are no bounds: ``A_0 ... A_{K-1}`` make the bound.
    eps_test, delta : float
        Budget of the test, and the one delta of test and release.
    box : sequence of (float, float) or None
        Public bounds of the estimates.
    """

    statistic: SmoothStatistic
    guarantee: Guarantee
    noise: SmoothNoise | StudentNoise
    rows: int
    distances: int | None
    eps_test: float
    delta: float
    box: Box | None

    @classmethod
    def of(
        cls,
        statistic: SmoothStatistic,
        eps: float,
        delta: float,
        rows: int,
        box: Box | None = None,
        gamma: float | None = None,
        *,
        before: tuple[Spend, ...] = (),
        seeded: bool = False,
    ) -> Self:
        """Divide the budget.

        Parameters
        ----------
        statistic : SmoothStatistic
        eps, delta : float
            Of the whole.
        rows : int
            Handed in.
        box : sequence of (float, float), optional
            Bounds of the estimates. Without them there is a test (unless `gamma` is given).
        gamma : float, optional
            For random DP, whose box depends on the data.
        before : tuple of Spend
            Steps that come before, at part of `eps`.
        seeded : bool

        Raises
        ------
        ParameterError
            If there are too few rows for the test.
        """
        left = eps - sum(s.eps for s in before)
        tested = box is None and gamma is None
        box = box if gamma is None else None
        eps_test = _TEST[statistic.law] * left if tested else 0.0
        noise: SmoothNoise | StudentNoise
        # without bounds the test has to pass, which wants beta and alpha alike
        if statistic.law == "student":
            noise = StudentNoise.of(left - eps_test, None if tested else rows, statistic.deepest)
        else:
            constants = (
                calibrate if tested else functools.partial(tuned, rows=rows, deepest=statistic.deepest)
            )
            noise = SmoothNoise.of(left - eps_test, delta, statistic.d, constants)
        distances = None
        if tested:
            distances = distances_needed(rows, statistic.share, eps_test, delta, noise.beta)
            if min(distances - 1, statistic.farthest(rows) - distances) - 1 < threshold(eps_test, delta):
                raise ParameterError(
                    f"{statistic.method}: {too_few(rows)} for the safety test that takes the place "
                    f"of bounds at eps = {eps:g}, delta = {delta:g}. Give {statistic.how}, or a larger eps."
                )
        spent = delta if tested or statistic.law == "laplace" else 0.0
        kind = KINDS[2] if gamma is not None else KINDS[1] if spent else KINDS[0]
        spends = (*before, *_spends(statistic, noise, left, spent, tested))
        guarantee = Guarantee(eps, spent, "substitution", kind, spends, gamma=gamma, seeded=seeded)
        return cls(statistic, guarantee, noise, rows, distances, eps_test, delta, box)

    @property
    def evaluated(self) -> int:
        """How many ``A_k`` the test may look at: enough for it to pass with certainty."""
        assert self.distances is not None
        ample = threshold(self.eps_test, self.delta) + math.ceil(40 / self.eps_test)
        return self.distances + min(self.distances, ample) + 1

    @property
    def rate(self) -> float | None:
        """Of the Laplace noise on the log of the released scale; None where the scale is not released."""
        noise = self.noise
        return noise.eps_scale / noise.log_sensitivity if isinstance(noise, SmoothNoise) else None

    def interval(self, estimates: Iterable[float], scales: Iterable[float]) -> NoiseInterval | None:
        """Intervals that cover Laplace noise; None for Student noise, whose scale is not released."""
        if self.rate is None:
            return None
        return NoiseInterval(tuple(map(float, estimates)), tuple(map(float, scales)), self.rate)


def _spends(
    statistic: SmoothStatistic, noise: SmoothNoise | StudentNoise, eps: float, delta: float, tested: bool
) -> tuple[Spend, ...]:
    """The steps of the release."""
    law, what = f"{statistic.law.capitalize()} noise", statistic.what
    scale = noise.eps_scale if isinstance(noise, SmoothNoise) else 0.0
    if tested:
        # behind a test that pays delta once, the steps are no private steps by themselves
        return (
            Spend(f"{what} and its noise scale" if scale else what, f"safety test, then {law}", eps, delta),
        )
    value = Spend(what, f"{law} of smooth sensitivity", eps - scale, delta)
    return (Spend("noise scale", "Laplace noise on its logarithm", scale), value) if scale else (value,)


@dataclass(frozen=True)
class SmoothRelease:
    """The noisy statistic, of shape (d,), and the released scale of its noise; None for Student noise."""

    values: np.ndarray
    scale: float | None


def smooth_release(
    values: ArrayLike,
    sensitivities: Callable[[int], Floats],
    smooth_bound: Callable[[Floats, float], float],
    box: Box | None,
    budget: SmoothBudget,
    rng: Randomness,
) -> SmoothRelease:
    """Release a statistic with noise of its smooth bound, behind the test if there is no box.

    Parameters
    ----------
    values : (d,) array_like
        The exact statistic.
    sensitivities : callable
        ``sensitivities(count)`` returns ``A_0 ... A_{count - 1}`` without a box, infinite where there is no
        bound.
    smooth_bound : callable
        ``smooth_bound(box, beta)`` returns a `beta`-smooth bound of the local sensitivity within the box.
    box : (d, 2) array_like or None
        ``budget.box``, in the units of the values; for random DP one that depends on the data.
    budget : SmoothBudget
    rng : Randomness

    Returns
    -------
    SmoothRelease

    Raises
    ------
    ReleaseFailed
        If the test fails.

    Notes
    -----
    **Privacy.** ``budget.guarantee``: the release of ``budget.noise`` (Laplace or Student), behind
    propose-test-release with the margin of :func:`~dpstats.mechanisms.smooth_sensitivity.truncated` where
    there is no box. With a box that depends on the data there is no proof.
    """
    values = np.asarray(values, dtype=float)
    if box is not None:
        limits = np.asarray(box, dtype=float)
        values, bound = np.clip(values, *limits.T), smooth_bound(limits, budget.noise.beta)
    else:
        assert budget.distances is not None
        statistic, A = budget.statistic, sensitivities(budget.evaluated)
        size = None if statistic.exact else float(np.max(np.abs(limited(values))))
        bound, margin = truncated(A, budget.distances, budget.noise.beta, size)
        if not passes(margin, budget.eps_test, budget.delta, rng):
            raise ReleaseFailed(
                f"{statistic.method}: the safety test that takes the place of bounds failed, so there is no "
                f"estimate. Give {statistic.how}; a larger eps or delta, or more rows, would help too."
            )
    return SmoothRelease(*budget.noise.release(values, bound, rng))
