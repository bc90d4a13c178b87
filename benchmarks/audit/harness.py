"""What a row of the audit is, and how the release behind a public function is got hold of."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from audit.tapes import log_ratios, patched
from dpstats.data.schema import Schema
from dpstats.data.sources import open_source
from dpstats.engines.local import Rows
from dpstats.errors import ReleaseFailed
from dpstats.estimation import pipeline as _estimate
from dpstats.formula.design import Design

__all__ = ["Broken", "Case", "Release", "calls", "transcripts"]

DELTA = 1e-6


@dataclass(frozen=True)
class Broken:
    """A variant with a mistake in it.

    Attributes
    ----------
    what : str
        The mistake, for the table.
    changes : tuple
        Triples of an object, an attribute and what replaces it; or a callable that returns them.
    sample : callable, optional
        As that of the case, where other neighbours show the mistake better.
    runs : int, optional
        Fewer runs suffice for a large mistake.
    neighbours : str, optional
        Of `sample`.
    """

    what: str
    changes: tuple | Callable
    sample: Callable | None = None
    runs: int | None = None
    neighbours: str | None = None

    def applied(self):
        """A context in which the mistake is made."""
        return patched(*(self.changes() if callable(self.changes) else self.changes))


@dataclass(frozen=True)
class Case:
    """A mechanism on two neighbouring data sets.

    Attributes
    ----------
    target : str
        Module and function, or the public function.
    neighbours : str
        The two data sets in words.
    sample : callable
        ``sample(runs, rng)`` returns the scores of so many outputs on either data set.
    broken : Broken
    measure : {"dp", "gdp"}
    delta : float
        Of the promise at ``eps = 1``.
    runs : int
        On either data set, in the full audit.
    quick : int
        The same in the quick audit; 0 leaves the case out.
    system : bool
        Whether the operating system's randomness is used, and with it OpenDP's samplers; else a seeded
        stream.
    """

    target: str
    neighbours: str
    sample: Callable
    broken: Broken
    measure: str = "dp"
    delta: float = 0.0
    runs: int = 40_000
    quick: int = 0
    system: bool = True
    setup: Callable = field(default=contextlib.nullcontext)


class Release:
    """The release of a public function on rows of its own choosing: everything but reading, charging and
    printing.

    Parameters
    ----------
    estimator : callable
        A public function; what it validates, plans and charges is what it always does.
    formula : str
    columns : dict
        Data that the plan is made for: their names, and the number of rows where it is public.
    **arguments
        As the public function takes them.
    """

    def __init__(self, estimator, formula, columns, **arguments):
        def capture(method, formula, data, *, bounds, levels, plan, release, public_rows=False, **_):
            source = open_source(data)
            self._design = Design.from_formula(formula, Schema.of(source, levels=levels, bounds=bounds))
            rows = (len(next(iter(columns.values()))),) if public_rows else ()
            self._plan, self._release = plan(self._design, False, *rows), release

        with patched((_estimate, "estimate", capture)):
            estimator(formula, columns, **arguments)

    @property
    def guarantee(self):
        return self._plan.guarantee

    def blocks(self, columns):
        """A data set as the public function hands it to the release."""
        return self._design.blocks(open_source(columns))

    def rows(self, columns):
        """The design matrix and response of a data set, held in memory: for releases that do not change the
        design."""
        blocks = list(self.blocks(columns))
        d = len(self._design.column_names), len(self._design.response_names)
        empty = [np.empty((0, k)) for k in d]
        parts = zip(*blocks, strict=True) if blocks else ((), ())
        X, Y = (np.concatenate([none, *part]) for none, part in zip(empty, parts, strict=True))
        return Rows(X, Y)

    def __call__(self, blocks, rng):
        """The result, or None after a ReleaseFailed."""
        try:
            with np.errstate(all="ignore"):
                return self._release(blocks, self._design, self._plan, rng)
        except ReleaseFailed:
            return None


def transcripts(build):
    """A sampler of likelihood ratios of whole transcripts.

    Parameters
    ----------
    build : callable
        ``build()`` returns ``run, first, second`` of :func:`tapes.log_ratios`. It is called within the broken
        variant's changes.
    """

    def sample(runs, rng):
        return log_ratios(*build(), runs, rng)

    return sample


def calls(build, score=float):
    """A sampler of scores of single calls.

    Parameters
    ----------
    build : callable
        ``build()`` returns ``run, first, second``, with ``run(data, rng)`` one output.
    score : callable
        From output to float.
    """

    def sample(runs, rng):
        run, first, second = build()
        return tuple(
            np.array([score(run(data, rng)) for _ in range(runs)], dtype=float) for data in (first, second)
        )

    return sample
