"""Searched by replay: promises about units of several rows, one of which has a thousand."""

import contextlib
from dataclasses import replace

import numpy as np

import dpstats
from audit.climb import Target
from audit.extremes import Tables
from audit.harness import Broken, Release, taken_anyway
from audit.replay import Replay
from audit.search_replays import share
from audit.tapes import patched
from dpstats.data import units as data_units
from dpstats.data.sources import open_source
from dpstats.estimation.units import opened
from dpstats.formula import units
from dpstats.linear import loss, summed

_GAUSSIAN = "replay: root of the sum of squared losses, over mu"
_PURE = "replay: sum of the widths of the log-ratios, over eps"
ROWS, MANY = 3, 334
"""Rows of a unit, and how often those of the unit that differs are there."""


def panel(table, differing):
    """The columns of a table of units: a row of it holds the rows (x, y) of one, one behind the other.

    Parameters
    ----------
    table : (m, 2 ROWS) array
    differing : bool
        Whether the last unit is the one that the other table lacks: it has a thousand rows.
    """
    times = np.ones(len(table), dtype=int)
    if differing:
        times[-1] = MANY
    each = np.repeat(table, times, axis=0).reshape(-1, 2)
    of = np.repeat(np.repeat(np.arange(len(table)), times), ROWS)
    return {"x": each[:, 0].copy(), "y": each[:, 1].copy(), "id": of}


def two_files(columns):
    """The rows in two frames, so that those of a unit are in both."""
    return [{name: values[part::2] for name, values in columns.items()} for part in range(2)]


def in_given_order(files):
    """Units in the order of their numbers; of files, nothing held in memory that can go to disk."""
    order = (data_units, "_hashes", lambda values, key: np.asarray(values).astype(np.uint64) << np.uint64(58))
    return (order, (data_units, "_HELD", 1)) if files else (order,)


def replayed(function, formula, files=False, **arguments):
    """``opened`` of a target: the losses of a replay of a public function on panels that differ in a unit."""

    @contextlib.contextmanager
    def losses():
        release = Release(function, formula, panel(np.zeros((1, 2 * ROWS)), False), unit="id", **arguments)

        def run(columns, rng):
            source = open_source(iter(two_files(columns)) if files else columns)
            with opened(release.estimator, release.call, release.design, source, rng) as blocks:
                return release(blocks, rng)

        def ratio(pair):
            panels = panel(pair.first, pair.one is not None), panel(pair.second, pair.other is not None)
            # the larger first: of a unit that is last the others draw as without it
            panels = sorted(panels, key=lambda columns: -len(columns["id"]))
            return share(replay.losses(run, *panels, pair.seed), release.guarantee)

        with patched(*taken_anyway(), *in_given_order(files)), Replay().inserted() as replay:
            yield ratio

    return losses


def by_row():
    """Parts of the score limited row by row, and not as a whole."""

    def parts(self, rows, u):
        if isinstance(rows, summed.Summed):
            each_row = [(each.X, np.pad(each.Y, ((0, 0), (0, 1)))) for each, _ in rows.at(u)]
            return each_row, u, self.threshold
        return rows, u, self.threshold

    return ((loss._Residual, "_parts", parts),)


def _all_rows():
    """All rows of a unit in place of one."""
    return ((units, "drawn", lambda rows, usable, rng: np.arange(len(usable))),)


def _targets():
    # numbers of any size are left to the targets of records: here they are to pass together
    space = Tables(2 * ROWS, "add-remove", (0, 12), largest=1e6)

    def case(name, function, formula, broken, ratio=_GAUSSIAN, **more):
        return Target(name, space.relation, ratio, space, replayed(function, formula, **more), broken, 1_000)

    rows_alone = Broken("limited row by row", by_row)
    whole = Broken("all rows drawn", _all_rows)
    yield case("ols, unit", dpstats.ols, "y ~ x", rows_alone, eps=100)
    yield case("ols, unit, weights", dpstats.ols, "y ~ x", rows_alone, eps=100, weights="unit")
    yield case("ols, unit, effects", dpstats.ols, "y ~ x", rows_alone, eps=100, effects="unit")
    yield case("ols, unit, files", dpstats.ols, "y ~ x", rows_alone, eps=100, files=True)
    yield case("huber, unit", dpstats.huber, "y ~ x", rows_alone, eps=100)
    yield case("adassp, unit", dpstats.adassp, "y ~ x", rows_alone, eps=100)
    yield case("boosted_adassp, unit", dpstats.boosted_adassp, "y ~ x", rows_alone, eps=100)
    yield replace(
        case("tukey_em, unit", dpstats.tukey_em, "y ~ x", whole, eps=100, models=8),
        ratio=_GAUSSIAN + "; subset fits that differ, and the margin's change",
    )
    yield case("median, unit", dpstats.median, "y ~ 1", whole, _PURE,
               eps=1, alpha=None)  # fmt: skip
    yield case("logit, unit", dpstats.logit, "I(y > 0) ~ x", rows_alone, eps=100)
    yield case("poisson, unit", dpstats.poisson, "np.floor(np.abs(y)) ~ x", rows_alone, eps=100)


TARGETS = tuple(_targets())
