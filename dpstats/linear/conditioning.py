"""Conditioning that costs nothing: rows made up from released marginals, and the metric they are white in.

All of this is computed from what has been released, and from the formula.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpstats._types import Booleans, Floats, Integers
from dpstats.formula.marginals import Marginals, Reference
from dpstats.linear.left_out import LeftOut
from dpstats.mechanisms._kernels import CEILING, EXPONENT, OCTAVES
from dpstats.mechanisms.standardize import Standardization
from dpstats.mechanisms.whiten import Affine

__all__ = [
    "REFERENCE",
    "REFERENCE_OF_SHARES",
    "SEEN",
    "MadeUp",
    "least_rows",
    "make_up",
    "start_map",
    "values_of",
    "without_reference",
]

_ROWS = 4096
_FAR_ROWS = 1024
_LEAST_ROWS = 256
_EDGE = 2.0**-10
_LEAST, _ROUNDINGS = 1e-6, 100.0
"""Where made-up rows are less than this share of a standardised column long, and so many times what rounding
may do to one, they say nothing."""
SEEN, _RARE = 5.0, 0.03
"""A level leaves the model if its released number is below so many standard deviations of the noise for each
of its columns (``g * x`` has two) and below 3 % of the rows, or below one standard deviation: with so few it
would mostly be hidden, and a direction that is hidden takes other coefficients along. With those that more
columns add, all are 3 % of the rows at most."""
REFERENCE, REFERENCE_OF_SHARES = 1.0, 0.5
"""Of a reference level it is so many times that. In `logit` others are hidden with it only where it has fewer
rows."""
_AGREES = 4.0
"""A made-up column is believed if its scale is within this factor of the released one."""


@dataclass(frozen=True)
class MadeUp:
    """Made-up rows of the columns of a design that depend on each other by the formula.

    Attributes
    ----------
    marginals : Marginals
    rows : (m, k) array
        The columns ``marginals.joint``, from independent variables and factors with the released marginals.
    low, high : (k,) arrays
        Limits of the columns while the variables are within theirs.
    empty : (k,) array of bool
        Columns of levels that leave the model, which are 0 but for rows of one such level.
    references : sequence of (Reference, int)
        The reference levels that leave, each with another level of its factor that stays: the number of its
        row in ``Reference.own``.
    codes : mapping of str to (m,) int arrays
        The rows' levels of each factor.
    left : tuple of (str, int)
        Factors and levels that leave, as their released numbers say that they may have no rows.
    stay : float
        The share of the rows that stay, by these numbers, as if levels of different factors were independent.
    """

    marginals: Marginals
    rows: Floats
    low: Floats
    high: Floats
    empty: Booleans
    references: Sequence[tuple[Reference, int]]
    codes: Mapping[str, Integers]
    left: tuple[tuple[str, int], ...]
    stay: float

    def standardize(self, loc: Floats, scale: Floats, intercept: bool) -> None:
        """Fill in location and scale, (d,) arrays, of the columns that do not stand for themselves.

        Columns that are not in the model have the scale 0.
        """
        joint = np.array(self.marginals.joint)
        out = self.empty | np.isin(joint, self._instead)
        scale[joint[out]] = 0.0
        for j, values in zip(joint[~out], self.rows.T[~out], strict=True):
            spread = float(np.std(values) if intercept else np.sqrt(np.mean(values**2)))
            if not (intercept and j == 0) and j not in self.marginals.direct and 0 < spread < np.inf:
                loc[j], scale[j] = np.mean(values) if intercept else 0.0, spread

    def limit(self, low: Floats, high: Floats) -> None:
        """Fill in the limits, (d,) arrays, of the columns that read variables.

        They are a little wider than the made-up rows reach, of which none need be where a square is 0.
        """
        for j, least, most in zip(self.marginals.joint, self.low, self.high, strict=True):
            if j in self.marginals.moved:
                edge = _EDGE * (most - least)
                low[j], high[j] = least - edge, most + edge

    def start(
        self, active: Integers, loc: Floats, scale: Floats, intercept: bool, squared: bool = False
    ) -> Floats:
        """A map in which the rows, standardised, are white, for the columns `active`: (q, q).

        A column that stands for itself without being a variable has a released scale, and is left alone where
        the rows contradict that.
        """
        W = np.eye(len(active))
        inside, here, z = self._standardised(active, loc, scale)
        own = set(self.marginals.direct) - {
            self.marginals.direct[i]
            for i in self.marginals.variables.values()
            if i < len(self.marginals.direct)
        }
        at = np.searchsorted(active, here)
        rounding = np.finfo(float).eps * np.abs(self.rows[:, inside]).max(axis=0) / scale[here]
        if squared:
            rounding = np.sqrt(rounding)
        W[np.ix_(at, at)] = start_map(z, np.isin(here, list(own)), intercept, rounding)
        return W

    @property
    def levels(self) -> list[tuple[str, int]]:
        """Factors and levels that are in the model."""
        every = [(name, level) for name, codes in self.codes.items() for level in np.unique(codes)]
        return [pair for pair in every if pair not in self.left]

    def groups(self, active: Integers, loc: Floats, scale: Floats) -> tuple[Floats, Floats]:
        """Means of the standardised columns `active` in the rows of each level in the model, (k, q), and the
        levels' shares of the rows, (k,)."""
        levels = [self.codes[name] == level for name, level in self.levels]
        shares = np.mean(np.reshape(levels, (len(levels), len(self.rows))), axis=1)
        return self._means(levels, active, loc, scale), shares

    def alone(self, affine: Affine) -> list[tuple[float, Floats, Floats]]:
        """What only the rows of one level have, for each level in the model.

        Its share of the rows; the combinations of the standardised columns that are 0 in all others, (q, k);
        and the mean of ``z z'`` over its rows, (q, q), both for the columns of `affine`.
        """
        loc, scale = np.zeros(d := max(map(int, affine.columns)) + 1), np.ones(d)
        loc[affine.columns], scale[affine.columns] = affine.loc, affine.scale
        _, here, z = self._standardised(affine.columns, loc, scale)
        stay = np.ones(len(z), bool)
        for name, level in self.left:
            stay &= self.codes[name] != level
        z, at, q = z[stay], np.searchsorted(affine.columns, here), len(affine.columns)
        gram, found = z.T @ z, []
        for name, level in self.levels:
            own = z[self.codes[name][stay] == level]
            products = own.T @ own
            values, vectors = np.linalg.eigh((gram - products) / len(z))
            zero = vectors[:, values < _LEAST**2]
            combinations, mean = np.zeros((q, zero.shape[1])), np.zeros((q, q))
            combinations[at], mean[np.ix_(at, at)] = zero, products / max(len(own), 1)
            found.append((len(own) / len(z), combinations, mean))
        return found

    @property
    def _instead(self) -> Integers:
        columns = [reference.own[at] for reference, at in self.references]
        return np.unique(np.concatenate([np.zeros(0, np.intp), *columns]))

    @property
    def gone(self) -> LeftOut:
        """The rows of levels that leave the model."""
        d = len(self.marginals.design.column_names)
        columns = np.array(self.marginals.joint, np.intp)[self.empty]
        found = replace(LeftOut.nothing(d), columns=columns)
        for reference, at in self.references:
            found = found.beside(without_reference(reference, at, d))
        return replace(found, instead=np.setdiff1d(found.instead, columns))

    def _means(self, of: Sequence[Booleans], active: Integers, loc: Floats, scale: Floats) -> Floats:
        _, here, z = self._standardised(active, loc, scale)
        means = np.zeros((len(of), len(active)))
        for mean, rows in zip(means, of, strict=True):
            mean[np.searchsorted(active, here)] = z[rows].mean(axis=0)
        return means

    def _standardised(
        self, active: Integers, loc: Floats, scale: Floats
    ) -> tuple[Booleans, Integers, Floats]:
        """Which columns of the rows are `active`, which of the design these are, and their values."""
        joint = np.array(self.marginals.joint)
        inside = np.isin(joint, active)
        here = joint[inside]
        return inside, here, (self.rows[:, inside] - loc[here]) / scale[here]


def without_reference(reference: Reference, at: int, d: int) -> LeftOut:
    """The rows of a reference level, of `d` columns; the level of row `at` of ``reference.own`` stays."""
    free = np.zeros((d, len(reference.margin)))
    each = np.arange(len(reference.margin))
    free[reference.margin, each] = -1.0
    free[reference.own, each] = 1.0
    names = reference.names[reference.level], reference.names[at + (at >= reference.level)]
    return replace(
        LeftOut.nothing(d),
        dummies=(reference.dummies,),
        instead=reference.own[at],
        free=free,
        references=((reference.factor, *names),),
    )


def least_rows(noise: float, count: float, seen: float) -> float:
    """The released number from which on a level is taken to have rows."""
    return max(noise, min(seen * noise, _RARE * count))


def make_up(
    marginals: Marginals,
    variables: Standardization | None,
    levels: Sequence[Floats],
    noise: float,
    count: float,
    reach: float,
    seen: float = SEEN,
    references: float = 0.0,
) -> MadeUp | None:
    """Rows from released marginals.

    Parameters
    ----------
    marginals : Marginals
    variables : Standardization or None
        Of the columns that stand for themselves, and the variables behind them.
    levels : sequence of (L,) arrays
        Released numbers of rows of the levels of each factor.
    noise : float
        Standard deviation of their noise: a level counts as at least so many rows.
    count : float
        Released number of rows.
    reach : float
        The limits of a variable, as a multiple of its private range.
    seen : float
        Standard deviations of the noise that a rare level needs at least to stay in the model.
    references : float
        A rare reference level needs so many times `seen`; 0 is for reference levels that always stay.

    Returns
    -------
    MadeUp or None
        None if too few of the rows can be used.
    """
    generator = np.random.default_rng(20220816)

    far = reach if np.isfinite(reach) else 1.0

    def rows(draw_far: bool) -> tuple[Floats, dict[str, Integers]]:
        size = _FAR_ROWS if draw_far else max(_ROWS, *(8 * len(c) for c in levels), 0)
        values, codes = {}, {}
        for name, j in marginals.variables.items():
            assert variables is not None
            if draw_far:
                steps = generator.integers(-1, 2, size)
                values[name] = variables.loc[j] + far * variables.reach[j] * steps
            else:
                values[name] = generator.permutation(values_of(variables, j, count, size))
        for factor, counts in zip(marginals.factors, levels, strict=True):
            shares = np.maximum(counts, noise)
            edges = np.cumsum(np.maximum(shares / shares.sum(), 2 / size))
            middles = (np.arange(size) + 0.5) / size * edges[-1]
            codes[factor.name] = generator.permutation(np.searchsorted(edges, middles))
        X, usable = marginals.rows(values, codes)
        return X[usable], {name: code[usable] for name, code in codes.items()}

    near, codes = rows(False)
    if len(near) < max(_LEAST_ROWS, len(marginals.joint)):
        return None
    both = np.vstack([near, rows(True)[0]])
    empty, left, stay = np.zeros(near.shape[1], bool), list[tuple[str, int]](), 1.0
    instead = list[tuple[Reference, int]]()
    for factor, counts in zip(marginals.factors, levels, strict=True):
        own, whole = marginals.own_columns(factor)
        columns = own.sum(axis=1)
        reference = marginals.reference(factor) if references else None
        least = np.full(len(counts), float(seen))
        if reference is not None:
            columns[reference.level], whole[reference.level] = len(reference.margin), True
            least[reference.level] *= references
        once, fewest = (np.maximum(noise, np.minimum(k * least * noise, _RARE * count)) for k in (1, columns))
        few = np.argsort(counts, kind="stable")
        few = few[(columns[few] > 0) & (counts[few] < fewest[few])]
        together = np.cumsum(np.maximum(counts[few], 0.0))
        gone = sorted(few[(counts[few] < once[few]) | (together <= _RARE * count)].tolist())
        if reference is not None and reference.level in gone:
            most = int(np.argmax(counts))
            if most in gone:
                gone.remove(reference.level)
            else:
                instead.append((reference, most - (most > reference.level)))
        for level in gone:
            empty |= own[level]
            left.append((factor.name, level))
        rows_gone = sum(float(counts[level]) for level in gone if whole[level])
        stay *= min(max(1 - rows_gone / count, 0.0), 1.0)
    return MadeUp(
        marginals, near, both.min(axis=0), both.max(axis=0), empty, instead, codes, tuple(left), stay
    )


def values_of(variables: Standardization, j: int, count: float, size: int) -> Floats:
    """Equally spaced quantiles of a variable: uniform within octaves of the distance from its location."""
    below, above = variables.rows[j]
    rest = max(count - below.sum() - above.sum(), 0.0)
    lower = 2.0 ** (np.arange(OCTAVES) - EXPONENT)
    starts = np.concatenate([-2 * lower[::-1], [0.0], lower])
    lengths = np.concatenate([lower[::-1], [0.0], lower])
    mass = np.concatenate([below[::-1], [rest], above])
    total = mass.sum()
    ends = np.cumsum(mass / total)
    at = (np.arange(size) + 0.5) / size
    cell = np.minimum(np.searchsorted(ends, at), len(mass) - 1)
    part = np.clip(1 - (ends[cell] - at) * total / np.maximum(mass[cell], 1e-300), 0.0, 1.0)
    return np.clip(variables.loc[j] + starts[cell] + part * lengths[cell], -CEILING, CEILING)


def start_map(rows: Floats, own: Booleans, intercept: bool, rounding: Floats | float = 1e-8) -> Floats:
    """The symmetric map in which rows are white; directions in which they do not vary stay as they are.

    Parameters
    ----------
    rows : (m, k) array
        Standardised, the constant first if there is one.
    own : (k,) array of bool
        Columns whose scale 1 is a released one: left alone where the rows contradict it.
    intercept : bool
    rounding : (k,) array or float
        The precision of the rows, which is low in columns of little variation far from 0.

    Returns
    -------
    (k, k) array

    Examples
    --------
    >>> x = np.linspace(-1, 1, 101)
    >>> rows = np.column_stack([np.ones(101), x, x + x**2 / 1000])
    >>> white = rows @ start_map(rows, np.zeros(3, bool), True)
    >>> np.allclose(white.T @ white / 101, np.eye(3))
    True
    """
    k = rows.shape[1]
    spread = rows.std(axis=0) if intercept else np.sqrt(np.mean(rows**2, axis=0))
    if intercept:
        spread[0] = 1.0
    used = np.isfinite(spread) & (spread > 0)
    used &= ~own | ((spread >= 1 / _AGREES) & (spread <= _AGREES))
    W, inside = np.eye(k), np.flatnonzero(used)
    _, s, V = np.linalg.svd(rows[:, inside] / spread[inside] / np.sqrt(len(rows)), full_matrices=False)
    seen = np.broadcast_to(rounding, spread.shape)[inside] / spread[inside]
    least = min(_LEAST, _ROUNDINGS * float(np.max(seen, initial=0.0)))
    inverse = np.where(s > least, 1 / np.maximum(s, least), 1.0)
    # symmetric square root: keeps each coordinate near its own column
    W[np.ix_(inside, inside)] = (V.T * inverse) @ V / spread[inside][:, None]
    return W
