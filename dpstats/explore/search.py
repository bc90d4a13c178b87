"""The least number of rows, or the least `eps`, at which a target is met, by bisection."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr

from dpstats._types import Floats
from dpstats._validation import allows, fail
from dpstats.explore.simulate import Runs, Simulation, median
from dpstats.results.inference import critical_value

__all__ = ["Criterion", "Needed", "criteria", "powers", "search"]

_MOST = {"n": 2_000_000.0, "eps": 64.0}
_LEAST_EPS = 0.01
_START = {"n": 2_000.0, "eps": 1.0}
_STEP = {"n": 4.0, "eps": 2.0}
_CLOSE = 1.03
"""The bracket at which the bisection ends."""
_BATCH = 50
_SURE = 2.0
"""Standard errors of the simulation beyond which a point is clearly on one side of the target."""
_QUANTITIES = ("se", "width", "power")


@dataclass(frozen=True)
class Criterion:
    """A standard error or a width that is to be at most `value`, or a power at least that, of one term."""

    term: str
    quantity: str
    value: float

    def __str__(self) -> str:
        sign = ">=" if self.quantity == "power" else "<="
        return f"{self.quantity} of {self.term} {sign} {self.value:.6g}"


@dataclass(frozen=True)
class Needed:
    """What a target takes.

    Attributes
    ----------
    eps : float
    n : int
        One of the two was found, the other given.
    low, high : float
        Between which the found one lies as far as the simulation tells: below, the target is clearly
        missed, and from there on clearly met.
    reached : bool
        False if the largest value that is tried does not meet the target; it is then in `eps` or `n`.
    found : {"n", "eps"}
    """

    eps: float
    n: int
    low: float
    high: float
    reached: bool
    found: str


def criteria(target: Any, terms: tuple[str, ...], effects: Mapping[str, float]) -> tuple[Criterion, ...]:
    """A target as a list; what is no target is a ParameterError that names it."""
    allowed = (
        'a dictionary such as {"x": {"width": 0.5}} or {"x": {"power": 0.8}}, of se, width or power of '
        f"columns among {list(terms)}"
    )
    if not (isinstance(target, Mapping) and target):
        fail("target", target, allowed)
    found = []
    for term, wanted in target.items():
        if not (term in terms and isinstance(wanted, Mapping) and wanted):
            fail("target", term, allowed)
        for quantity, value in wanted.items():
            kind = "alpha" if quantity == "power" else "positive"
            if quantity not in _QUANTITIES or not allows(value, kind):
                fail("target", quantity, allowed)
            if quantity == "power" and not effects.get(term):
                fail("target", quantity, f"a width for {term!r}, or effects must say what effect it has")
            found.append(Criterion(term, quantity, float(value)))
    return tuple(found)


def powers(se: Floats, effect: float, alpha: float) -> Floats:
    """The power of the Wald test that a coefficient is 0, for each standard error; 0 where there is none."""
    z = critical_value(alpha)
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = abs(effect) / se
        power = ndtr(shift - z) + ndtr(-shift - z)
    return np.where(np.isnan(se), 0.0, power)


def _margin(
    runs: Runs, criterion: Criterion, position: int, effect: float, alpha: float
) -> tuple[float, float]:
    """How far a criterion is met, and the simulation's standard error of that; negative where it is not."""
    if criterion.quantity == "power":
        power = powers(runs.se[:, 0, position], effect, alpha)
        # a power of 1 in all runs leaves no error, and one in m may still have been missed
        error = max(float(power.std()), 1 / len(power)) / math.sqrt(len(power))
        return float(power.mean()) - criterion.value, error
    values = (runs.se if criterion.quantity == "se" else runs.width)[:, 0, position]
    # what is not determined is wider than any interval
    logs = np.log(np.where(np.isnan(values), 1e300, values))
    middle, error = median(logs)
    return math.log(criterion.value) - middle, error


class _Search:
    """Points at which the target has been tried."""

    def __init__(
        self,
        simulation: Simulation,
        wanted: tuple[Criterion, ...],
        effects: Mapping[str, float],
        runs: int,
        point: Callable[[float], tuple[int, float]],
    ) -> None:
        self.simulation, self.wanted, self.effects, self.runs = simulation, wanted, effects, runs
        self.point = point
        self.tried: dict[float, tuple[bool, bool, Runs]] = {}

    def met(self, x: float) -> bool:
        """Whether the target is met at a point, by as many tables as it takes to tell."""
        if x not in self.tried:
            self.tried[x] = self._try(x)
        return self.tried[x][0]

    def _try(self, x: float) -> tuple[bool, bool, Runs]:
        n, eps = self.point(x)
        task = self.simulation.task
        outcomes: list[Any] = []
        while True:
            size = min(_BATCH, self.runs - len(outcomes))
            self.simulation.expect(size)
            outcomes += self.simulation.outcomes(n, range(len(outcomes), len(outcomes) + size), (eps,))
            runs = Runs.of(outcomes)
            margins = [
                _margin(runs, c, task.terms.index(c.term), self.effects.get(c.term, 0.0), task.alpha)
                for c in self.wanted
            ]
            met = all(margin >= 0 for margin, _ in margins)
            clear = all(margin > _SURE * error for margin, error in margins) or any(
                margin < -_SURE * error for margin, error in margins
            )
            if clear or len(outcomes) >= self.runs:
                return met, clear, runs


def search(
    simulation: Simulation,
    wanted: tuple[Criterion, ...],
    effects: Mapping[str, float],
    n: int | None,
    eps: float | None,
    runs: int,
) -> tuple[Needed, Runs]:
    """The least `n` or `eps`, whichever is None, at which the target is met.

    Parameters
    ----------
    simulation : Simulation
    wanted : tuple of Criterion
        All of which are to be met.
    effects : dict
    n, eps : int and float or None
        One of them is given.
    runs : int
        The most tables at one point. Where fewer tell, it takes fewer.

    Returns
    -------
    Needed
    Runs
        Those at the point that is needed.
    """
    unknown = "n" if n is None else "eps"
    terms = len(simulation.task.terms)
    least = float(max(20, 4 * terms)) if n is None else _LEAST_EPS

    def point(x: float) -> tuple[int, float]:
        return (int(x), float(eps)) if eps is not None else (int(n or 0), x)

    def rounded(x: float) -> float:
        x = float(f"{x:.3g}")
        return max(least, min(float(round(x)) if unknown == "n" else x, _MOST[unknown]))

    found = _Search(simulation, wanted, effects, runs, point)
    low, high = 0.0, rounded(_START[unknown])
    while not found.met(high) and high < _MOST[unknown]:
        low, high = high, rounded(high * _STEP[unknown])
    reached = found.met(high)
    if reached and low == 0.0:
        low = rounded(high / _STEP[unknown])
        while low < high and found.met(low):
            low, high = rounded(low / _STEP[unknown]), low
    while reached and high > low * _CLOSE:
        middle = rounded(math.sqrt(low * high))
        if middle in (low, high):
            break
        low, high = (low, middle) if found.met(middle) else (middle, high)
    missed = [x for x, (met, clear, _) in found.tried.items() if clear and not met]
    surely = [x for x, (met, clear, _) in found.tried.items() if clear and met]
    rows, budget = point(high)
    needed = Needed(
        budget,
        rows,
        max((x for x in missed if x <= high), default=least),
        min((x for x in surely if x >= high), default=math.inf),
        reached,
        unknown,
    )
    return needed, found.tried[high][2]
