"""Replay: a release on one table answered as on its neighbour, and what each private step loses by it at the
most.

A :class:`Replay` is a tape that keeps, for each step, the law that the answer was drawn from. Played back on
a neighbour, every step has a second law, and the two have a largest distance over *all* answers. Given the
same answers everything else in a release must be the same: what is not has left the data unprotected.
"""

import contextlib
import dataclasses
import math
from dataclasses import dataclass

import numpy as np

from audit import tapes
from audit.tapes import Tape
from dpstats.mechanisms import deep_line as _deep_line
from dpstats.mechanisms import exponential, size
from dpstats.mechanisms import smooth_release as _smooth
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.smooth_sensitivity import ROUNDING, SmoothNoise, enlarged, limited
from dpstats.privacy.conversions import pure_mu
from dpstats.regression import medsweep, theil_sen, tukey_em
from dpstats.selection import pairs

__all__ = ["Losses", "Replay", "same"]

# -- laws: what a step loses between neighbours, at the worst answer ---------------------------------------


@dataclass(frozen=True)
class Losses:
    """What the steps of a release lose together.

    Attributes
    ----------
    mu : float
        Of the Gaussian steps: the root of the sum of squares.
    eps : float
        Of the pure steps: the sum of the widths of their log-ratios.
    shares : float
        The largest of what the other steps lose, as a share of what their proofs allow.
    mixed : float
        As `mu`, with the pure steps among them: one of width ``e`` is ``pure_mu(e / 2)``-GDP.
    """

    mu: float
    eps: float
    shares: float
    mixed: float


class _Law:
    """A law of answers; ``loss(other)`` is ``(kind, amount)`` with a kind of :class:`Losses`."""

    kind = "eps"

    def loss(self, other):
        return self.kind, self.amount(other)


class _Normal(_Law):
    kind = "mu"

    def __init__(self, output, centre, scale):
        self.centre, self.scale = np.array(centre, dtype=float), scale

    def amount(self, other):
        moved = self._length(np.ravel(self.centre - other.centre))
        if self.scale != other.scale or (self.scale == 0 and moved > 0):
            return math.inf
        return moved / self.scale if moved else 0.0

    def _length(self, moved):
        return float(np.linalg.norm(moved))


class _Laplace(_Normal):
    kind = "eps"

    def _length(self, moved):
        return float(np.sum(np.abs(moved)))


class _Choice(_Law):
    """Finitely many answers, or pieces of a lattice, by the logs of their probabilities up to a constant."""

    def __init__(self, weights):
        self.weights = np.asarray(weights, dtype=float)

    def amount(self, other):
        return _width(self.weights, other.weights)


def _width(a, b):
    """Width of the interval of the log-ratios; the exponential mechanism's promise is about this."""
    if a.shape != b.shape or np.any(np.isneginf(a) != np.isneginf(b)):
        return math.inf
    possible = ~np.isneginf(a)
    return float(np.ptp(a[possible] - b[possible])) if possible.any() else 0.0


class _Lattice(_Law):
    """The exponential mechanism for a quantile: a law on all doubles, constant on cells."""

    def __init__(self, x, q, eps, neighbours, bounds):
        cells = exponential.quantile_cells(x, q, bounds)
        log = exponential.log_weights(cells, q, eps, neighbours) - np.log(cells.size.astype(float))
        order = np.argsort(cells.first)
        self.first, self.log = cells.first[order], log[order]

    def amount(self, other):
        starts = np.union1d(self.first, other.first)
        a, b = (law.log[np.searchsorted(law.first, starts, side="right") - 1] for law in (self, other))
        return _width(a, b)


class _Smooth(_Law):
    """A statistic with noise of its smooth bound: both may move as far as the bound says, and no farther."""

    kind = "shares"

    def __init__(self, values, bound, beta):
        self.values = limited(values)
        self.log_bound = math.log(enlarged(self.values, bound))
        self.beta = beta

    def amount(self, other):
        least = math.exp(min(self.log_bound, other.log_bound))
        moved = float(np.sum(np.abs(self.values - other.values))) / least
        return max(moved, abs(self.log_bound - other.log_bound) / self.beta)


class _Margin(_Law):
    """The margin of a safety test, of sensitivity 1. What lies behind it counts where it is safe."""

    kind = "shares"

    def __init__(self, margin):
        self.margin = max(int(margin), -1)

    def amount(self, other):
        return float(abs(self.margin - other.margin))


class _Rows(_Law):
    """A table of which one row may differ."""

    kind = "shares"

    def __init__(self, table):
        self.table = np.array(table, dtype=float)

    def amount(self, other):
        if self.table.shape != other.table.shape:
            return math.inf
        return float(np.sum(np.any(self.table != other.table, axis=1)))


class _Depth(_Law):
    """The exponential mechanism over regression depth, looked at on the lines through two rows of either
    table and between them."""

    def __init__(self, x, y, rate):
        self.x, self.y, self.rate = np.array(x), np.array(y), rate

    def amount(self, other):
        x, y = np.concatenate([self.x, other.x]), np.concatenate([self.y, other.y])
        i, j = np.triu_indices(len(x), 1)
        slopes = (y[j] - y[i]) / (x[j] - x[i])
        slopes = np.unique(slopes[np.isfinite(slopes)])
        slopes = np.unique(np.concatenate([[0.0], slopes, slopes[:-1] / 2 + slopes[1:] / 2])[:_LINES])
        intercepts = np.sort(y - np.outer(slopes, x), axis=1)
        intercepts = np.hstack([intercepts, intercepts[:, :-1] / 2 + intercepts[:, 1:] / 2])
        slopes, intercepts = np.repeat(slopes, intercepts.shape[1]), np.ravel(intercepts)
        a, b = (law.rate * regression_depth(law.x, law.y, intercepts, slopes) for law in (self, other))
        return float(np.ptp(a - b)) if len(a) else 0.0


_LINES = 200


def regression_depth(x, y, intercepts, slopes):
    """Depth of the lines ``intercept + slope x``, all (m,) arrays: a plain count over the splits of the
    covariate."""
    order = np.argsort(x, kind="stable")
    x, y = x[order], y[order]
    signs = np.sign(y - slopes[:, None] * x - intercepts[:, None])
    below, above = np.sum(signs < 0, axis=1), np.sum(signs > 0, axis=1)
    ends = np.flatnonzero(np.append(np.diff(x) > 0, True)[: len(x)])
    split = np.hstack([np.zeros((len(signs), 1)), np.cumsum(signs, axis=1)[:, ends]])
    return np.sum(signs == 0, axis=1) + np.minimum(below + split.min(axis=1), above - split.max(axis=1))


class _At(_Law):
    """A step of which only the log-likelihood of the answer is known."""

    def __init__(self, log):
        self.log = log

    def amount(self, other):
        return abs(self.log - other.log)


# -- what neighbours share ---------------------------------------------------------------------------------


class _Coupled(Randomness):
    """A seeded stream for each call: of two tables, one with a last row more, the rows before draw the
    same."""

    def __init__(self, seed):
        super().__init__(seed)
        self._seed, self.calls = seed, 0

    def _bytes(self, size):
        self.calls += 1
        return np.random.default_rng([self._seed, self.calls]).bytes(size) if size else b""


def _without_last(matching, n):
    """The matching of ``n - 1`` rows that goes with one of `n` (``docs/privacy/theil_sen.md``): the last row
    leaves."""
    has = np.any(matching == n - 1, axis=1)
    if not has.any():
        return matching
    rest = matching[~has]
    if n % 2 == 0:
        return rest
    (alone,) = set(range(n)) - set(np.ravel(matching).tolist())
    partner = int(matching[has].sum()) - (n - 1)
    return np.vstack([rest, [partner, alone]])


def same(a, b):
    """Whether two released values are identical: results, dataclasses, collections, arrays or numbers."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if hasattr(a, "to_dict"):
        return same(a.to_dict(), b.to_dict())
    if isinstance(a, dict):
        return list(a) == list(b) and same(list(a.values()), list(b.values()))
    if dataclasses.is_dataclass(a):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a))
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray):
        return a.shape == b.shape and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    if isinstance(a, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    return a == b


# -- the replay --------------------------------------------------------------------------------------------


class Replay(Tape):
    """A tape whose steps are laws.

    Within `inserted`, :meth:`losses` runs a release on two tables. The densities of :mod:`audit.tapes` are
    replaced by the laws above, so the steps are those that the audit knows; in addition whole releases by
    smooth sensitivity are one step, and so are their safety tests, which always pass.
    """

    def __post_init__(self):
        super().__post_init__()
        self._drawing = False
        self._patches += [
            (tapes, "normal_log", _Normal),
            (tapes, "laplace_log", _Laplace),
            (tapes, "_LAWS", {"laplace": _Laplace, "gaussian": _Normal}),
            (SmoothNoise, "release", self._smooth(SmoothNoise.release)),
            (medsweep, "release", self._released(medsweep.release)),
            (pairs, "choose", self._choose(pairs.choose)),
            (_deep_line, "_draw", self._line(_deep_line._draw)),
            (theil_sen, "_matching", self._matched(theil_sen._matching)),
            (tukey_em.tukey.Boxes, "of", classmethod(self._boxes(tukey_em.tukey.Boxes.of))),
            (_smooth, "passes", self._passes(True)),
            (tukey_em, "passes", self._passes(False)),
        ]

    def losses(self, run, first, second, seed):
        """The losses of ``run(table, rng)`` between two tables; None if the answers being the same, something
        else is not.

        Where `first` draws a matching of the rows, it must have no fewer rows than `second`.
        """
        self.record()
        self.laws, self.matchings = [], []
        self.rng = _Coupled(seed)
        one = run(first, self.rng)
        before, self.laws = self.laws, []
        self.matchings.reverse()
        self.play()
        self.rng = _Coupled(seed)
        try:
            other = run(second, self.rng)
        except IndexError:
            # more steps than were recorded
            return None
        if len(self.laws) != len(before) or not same(one, other):
            return None
        total = {"mu": [], "eps": [], "shares": []}
        safe = True
        for a, b in zip(before, self.laws, strict=True):
            if type(a) is not type(b):
                return None
            kind, amount = a.loss(b)
            if isinstance(a, _Margin):
                safe = max(a.margin, b.margin) >= 0
            if not isinstance(a, _Smooth) or safe:
                total[kind].append(amount)
        mu, eps = math.hypot(*total["mu"]), math.fsum(total["eps"])
        mixed = math.hypot(mu, *(pure_mu(e / 2) if e < math.inf else e for e in total["eps"]))
        return Losses(mu, eps, max(total["shares"], default=0.0), mixed)

    def step(self, draw, law_of):
        if self._drawing:
            # a part of a step that is one law
            return draw()
        if self._position is None:
            self._drawing, calls = True, self.rng.calls
            try:
                output = draw()
            finally:
                # the randomness of noise is none that neighbours share
                self._drawing, self.rng.calls = False, calls
            self.outputs.append(output)
        else:
            output = self.outputs[self._position]
            self._position += 1
        law = law_of(output)
        self.laws.append(law if isinstance(law, _Law) else _At(law))
        return output

    def _discrete(self, real):
        def discrete(value, eps, rng):
            return self.step(lambda: real(value, eps, rng), lambda output: _Laplace(output, value, 1 / eps))

        return discrete

    def _quantile(self, real):
        def quantile(x, q, eps, rng, *, neighbours="add-remove", bounds=None):
            return self.step(
                lambda: real(x, q, eps, rng, neighbours=neighbours, bounds=bounds),
                lambda output: _Lattice(x, q, eps, neighbours, bounds),
            )

        return quantile

    def _spread(self, real, log_weights):
        def spread(x, eps, rng):
            return self.step(lambda: real(x, eps, rng), lambda output: _Choice(log_weights(x, eps)))

        return spread

    def _interval(self, real):
        def release(interval, x, centre, rng):
            return self.step(
                lambda: real(interval, x, centre, rng),
                lambda output: _Choice(
                    interval.eps * interval.scores(x, centre) / (2 * interval.sensitivity)
                ),
            )

        return release

    def _size(self, real):
        def release_size(x, eps, rng, largest=size.LARGEST):
            return self.step(
                lambda: real(x, eps, rng, largest),
                lambda output: _Choice(size.log_weights(x, size.sizes(largest), eps)),
            )

        return release_size

    def _choose(self, real):
        def choose(scores, width, eps, rng):
            return self.step(
                lambda: real(scores, width, eps, rng),
                lambda output: _Choice(np.asarray(scores, dtype=float) * (eps / width)),
            )

        return choose

    def _line(self, real):
        def draw(x, y, rate, candidates, rng):
            return self.step(lambda: real(x, y, rate, candidates, rng), lambda output: _Depth(x, y, rate))

        return draw

    def _student(self, real):
        def release(parameters, values, bound, rng):
            return self.step(
                lambda: real(parameters, values, bound, rng),
                lambda output: _Smooth(values, bound, parameters.beta + 2 * ROUNDING),
            )

        return release

    def _smooth(self, real):
        def release(parameters, values, bound, rng):
            return self.step(
                lambda: real(parameters, values, bound, rng),
                lambda output: _Smooth(values, bound, parameters.log_sensitivity),
            )

        return release

    def _released(self, real):
        def release(values, bound, parameters, rng):
            return self.step(
                lambda: real(values, bound, parameters, rng),
                lambda output: _Smooth(values, bound, parameters.log_sensitivity),
            )

        return release

    def _passes(self, answer):
        def passes(margin, eps, delta, rng):
            return self.step(lambda: answer, lambda output: _Margin(margin))

        return passes

    def _boxes(self, real):
        def of(cls, models):
            self.step(lambda: None, lambda output: _Rows(models))
            return real(models)

        return of

    def _matched(self, real):
        def matching(n, rng):
            if self._position is None:
                self.matchings.append((n, real(n, rng)))
                return self.matchings[-1][1]
            before, pairs_of_rows = self.matchings.pop()
            return pairs_of_rows if before == n else _without_last(pairs_of_rows, before)

        return matching

    @contextlib.contextmanager
    def inserted(self):
        with super().inserted():
            yield self
