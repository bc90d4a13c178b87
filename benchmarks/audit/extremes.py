"""Small data of extremes and their neighbours, and the small changes by which the search climbs."""

from dataclasses import dataclass, replace

import numpy as np

__all__ = ["Box", "Pair", "Tables"]

_UNITS = (1.0, 1.0, 1.0, 1e-3, 1e6, 1e-30, 1e30, 2.0**101, 1e-300, 1e150, 1e300)
_ODD = (0.0, -0.0, 5e-324, 2.0**-1022, 2.0**-100, 2.0**101, 1e300, np.finfo(float).max)


@dataclass(frozen=True)
class Pair:
    """Two neighbouring tables: the rows that both have, then the one in which they differ.

    Attributes
    ----------
    rows : (n, k) array
        A row with a NaN is unusable.
    one, other : (k,) array or None
        None where the first or the second table has no such row.
    seed : int
        Of everything that the release draws.
    """

    rows: np.ndarray
    one: np.ndarray | None
    other: np.ndarray | None
    seed: int

    @property
    def first(self):
        return self._with(self.one)

    @property
    def second(self):
        return self._with(self.other)

    def _with(self, row):
        return self.rows if row is None else np.vstack([self.rows, row])

    @property
    def same(self):
        """Whether the tables hold the same numbers."""
        return np.array_equal(self.first, self.second, equal_nan=True)


@dataclass(frozen=True)
class Tables:
    """What pairs of tables there are.

    Attributes
    ----------
    columns : int
    relation : {"add-remove", "substitution"}
    sizes : (int, int)
        Fewest and most rows that both tables have.
    special : tuple of float
        Values where the mechanism changes its behaviour: ends of bounds, limits, points between.
    missing : bool
        Whether rows may be unusable.
    largest : float
        Magnitudes are cut off here.
    """

    columns: int
    relation: str
    sizes: tuple[int, int] = (0, 20)
    special: tuple[float, ...] = (-1.0, 0.0, 1.0)
    missing: bool = True
    largest: float = np.finfo(float).max

    def start(self, g):
        """A pair from the generator of extremes."""
        n = int(g.integers(self.sizes[0], self.sizes[1] + 1))
        rows = self._finish(g, self._table(g, n + 2))
        if g.random() < 0.5:
            # the row that differs from another place than the rest
            rows[-1] = self._finish(g, self._table(g, 1))[0]
        one = None if self.relation == "add-remove" else rows[-2]
        return Pair(rows[:n], one, rows[-1], int(g.integers(2**31)))

    def change(self, g, pair):
        """A pair a small step away."""
        both = [row for row in (pair.one, pair.other) if row is not None]
        table = np.array([*pair.rows, *both]).reshape(-1, self.columns)
        for _ in range(1 + int(g.integers(3))):
            table = self._step(g, table, len(both))
        n = len(table) - len(both)
        one = None if pair.one is None else table[n]
        seed = int(g.integers(2**31)) if g.random() < 0.1 else pair.seed
        return replace(pair, rows=table[:n], one=one, other=table[-1], seed=seed)

    def _step(self, g, table, differing):
        table = table.copy()
        n = len(table)
        # every third change is one of the rows that differ
        i = n - 1 - int(g.integers(differing)) if g.random() < 0.35 else int(g.integers(n))
        j, c = int(g.integers(n)), int(g.integers(self.columns))
        kind = int(g.integers(12))
        with np.errstate(all="ignore"):
            if kind == 0:
                table[i] = self._finish(g, self._table(g, 1))[0]
            elif kind == 1:
                table[i] = table[j]
            elif kind == 2:
                table[i, c] = table[j, c]
            elif kind == 3:
                table[i, c] = self._value(g)
            elif kind == 4:
                table[i, c] = -table[i, c]
            elif kind == 5:
                table[i, c] = np.nextafter(table[i, c], g.choice([-np.inf, np.inf]))
            elif kind == 6:
                table[i, c] *= 2.0 ** int(g.integers(-8, 9))
            elif kind == 7:
                table[i] = table[i] * (1 + 0.1 * g.standard_normal()) + 0.1 * g.standard_normal()
            elif kind == 8:
                table[:, c] *= 2.0 ** int(g.integers(-3, 4))
            elif kind == 9:
                table[i] = (table[i] + table[j]) / 2
            elif kind == 10 and n - differing < self.sizes[1]:
                table = np.insert(table, 0, table[i] if g.random() < 0.5 else self._table(g, 1)[0], axis=0)
            elif kind == 11 and n - differing > self.sizes[0]:
                table = np.delete(table, int(g.integers(n - differing)), axis=0)
        return self._finish(g, table, 0.02)

    def _value(self, g):
        kind = int(g.integers(8))
        if kind <= 1:
            return float(g.choice(self.special))
        if kind == 2:
            return float(np.nextafter(g.choice(self.special), g.choice([-np.inf, np.inf])))
        if kind == 3:
            return float(g.choice([-1, 1]) * 2.0 ** (int(g.integers(-40, 41)) / 2))
        if kind == 4:
            return float(g.choice([-1, 1]) * g.choice(_ODD))
        if kind == 5:
            return float(g.integers(-3, 4))
        return float(g.standard_normal() * g.choice(_UNITS))

    def _table(self, g, n):
        """Rows of one style."""
        k = self.columns
        unit = g.choice(_UNITS) if g.random() < 0.3 else 1.0
        style = int(g.integers(10))
        with np.errstate(all="ignore"):
            if style == 0:
                table = g.integers(-1, 2, (n, k)).astype(float)
            elif style == 1:
                table = g.standard_normal((n, k))
            elif style == 2:
                # a few neighbouring doubles
                table = np.full((n, k), float(g.choice(self.special)) + float(g.integers(0, 2)))
                table += g.integers(-3, 4, (n, k)) * np.spacing(np.abs(table))
            elif style == 3:
                # anisotropy: nearly a line
                table = np.outer(g.standard_normal(n), g.standard_normal(k))
                table += 10.0 ** int(g.integers(-16, 0)) * g.standard_normal((n, k))
            elif style == 4:
                # on the axes and the diagonals, and orthogonal to them
                directions = g.integers(-1, 2, (n, k)).astype(float)
                table = directions * g.choice([1.0, 2.0, 0.5, 1e-8, 1e8], (n, 1))
            elif style == 5:
                # edges of octaves and of half-octaves, and the doubles next to them
                table = 2.0 ** (g.integers(-12, 13, (n, k)) / 2) * g.choice([-1.0, 1.0], (n, k))
                table += g.integers(-1, 2, (n, k)) * np.spacing(np.abs(table))
            elif style == 6:
                table = np.full((n, k), self._value(g))
            elif style == 7:
                table = g.standard_cauchy((n, k)) * np.abs(g.standard_cauchy((n, k)))
            elif style == 8:
                table = np.array([self._value(g) for _ in range(n * k)]).reshape(n, k)
            else:
                table = g.choice(np.array(self.special), (n, k))
            table = table * unit
            if g.random() < 0.2:
                table[:, int(g.integers(k))] = self._value(g)
            return table

    def _finish(self, g, table, share=0.05):
        """Magnitudes cut off, and some rows unusable where they may be."""
        table = np.clip(
            np.nan_to_num(table, nan=0.0 if not self.missing else np.nan), -self.largest, self.largest
        )
        if self.missing and g.random() < share:
            table[int(g.integers(len(table))), int(g.integers(self.columns))] = np.nan
        return table


@dataclass(frozen=True)
class Box:
    """Points of the unit cube, for mechanisms whose neighbours are a few numbers.

    Attributes
    ----------
    dimension : int
    """

    dimension: int

    def start(self, g):
        return self._ends(g, g.random(self.dimension))

    def change(self, g, point):
        size = 10.0 ** -int(g.integers(0, 6))
        moved = np.clip(point + size * g.standard_normal(self.dimension), 0.0, 1.0)
        return self._ends(g, np.where(g.random(self.dimension) < 0.6, moved, point))

    def _ends(self, g, point):
        ends = np.round(point)
        return np.where(g.random(self.dimension) < 0.15, ends, point)
