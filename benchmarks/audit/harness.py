"""What a row of the audit is, and how the release behind a public function is got hold of."""

import contextlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from audit.tapes import log_ratios, patched
from dpstats.data.schema import Schema
from dpstats.data.sources import open_source
from dpstats.engines.local import Rows, gather
from dpstats.errors import ReleaseFailed
from dpstats.estimation.call import Estimator
from dpstats.estimation.units import opened
from dpstats.linear import glm, score_kernels
from dpstats.regression import deepest, huber, ols

__all__ = [
    "Broken",
    "Case",
    "Release",
    "calls",
    "divided",
    "each_step",
    "pair",
    "taken_anyway",
    "transcripts",
    "units",
    "unlimited",
]

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
    delta, eps : float
        Of the promise.
    runs : int
        On either data set, in the full audit.
    quick : int
        The same in the quick audit; 0 leaves the case out.
    system : bool
        Whether the operating system's randomness is used, and with it OpenDP's samplers; else a seeded
        stream.
    setup : callable
        A context in which both variants run, such as one that lets an estimator take as few rows as the case
        has.
    """

    target: str
    neighbours: str
    sample: Callable
    broken: Broken
    measure: str = "dp"
    delta: float = 0.0
    eps: float = 1.0
    runs: int = 40_000
    quick: int = 0
    system: bool = True
    setup: Callable = field(default=contextlib.nullcontext)


class Release:
    """The steps of a public function on rows of its own choosing: everything but reading, charging and
    printing.

    Parameters
    ----------
    function : callable
        A public function of an estimator; what it validates, divides and releases is what it always does.
    formula : str
    columns : dict
        Data that the budget is made for: their names, and the number of rows where it is public.
    **arguments
        As the public function takes them.

    Attributes
    ----------
    estimator : dpstats.estimation.call.Estimator
    call : dpstats.estimation.call.Call
    design : Design
    budget : Budget
    """

    def __init__(self, function, formula, columns, **arguments):
        handed = []
        # the public function hands its estimator and the call to `run`
        with patched((sys.modules[function.__module__], "run", lambda *both: handed.append(both))):
            function(formula, columns, **arguments)
        ((self.estimator, call),) = handed
        self.call, needs = call.checked(self.estimator.needs), self.estimator.needs
        call = self.call
        schema = Schema.of(open_source(columns), levels=call.levels, bounds=call.bounds)
        self.design = self.estimator.design(call, schema)
        needs.check(self.estimator.name, self.design)
        rows = len(next(iter(columns.values()))) if needs.public_rows else None
        self.budget = self.estimator.budget(self.design, call, rows)

    @property
    def guarantee(self):
        return self.budget.guarantee

    def blocks(self, columns):
        """A data set as the pipeline hands it to the release."""
        return self.design.blocks(open_source(columns))

    def rows(self, columns):
        """The design matrix and response of a data set, held in memory: for releases that do not change the
        design."""
        return Rows(*gather(self.blocks(columns)))

    def __call__(self, blocks, rng):
        """What is released, or None after a ReleaseFailed."""
        try:
            with np.errstate(all="ignore"):
                return self.estimator.release(blocks, self.budget, rng)
        except ReleaseFailed:
            return None

    def fit(self, blocks, rng):
        """The results of a release, or None after a ReleaseFailed."""
        released = self(blocks, rng)
        return None if released is None else self.estimator.results(self.design, self.budget, released)


def divided(module, change):
    """Changes by which the budget of a module's estimators is `change` of what it was."""

    def made(*given, **own):
        estimator = Estimator(*given, **own)
        return replace(estimator, budget=lambda *facts: change(estimator.budget(*facts)))

    return ((module, "Estimator", made),)


def taken_anyway():
    """Changes by which rows are never too few for rounds, nor for a line to be drawn."""
    rounds = tuple((module, "check_directions", lambda *facts: None) for module in (huber, ols))
    return (*rounds, (deepest, "_ROWS", 0), (glm, "check_information", lambda *facts: None))


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


def pair(function, formula, first, second, fit=False, eps=1, **arguments):
    """A builder of a release and two data sets; results are made for the scores that need them (`fit`)
    only."""

    def build():
        release = Release(function, formula, first, eps=eps, **arguments)
        return release.fit if fit else release, release.rows(first), release.rows(second)

    return build


def units(function, formula, first, second, eps=1, **arguments):
    """As :func:`pair`, for units of equal rows."""

    def build():
        release = Release(function, formula, first, eps=eps, unit="id", **arguments)

        def run(columns, rng):
            with opened(release.estimator, release.call, release.design, open_source(columns), rng) as blocks:
                return release(blocks, rng)

        return run, first, second

    return build


def unlimited(name, at, module=score_kernels):
    """Changes that multiply the limit of a kernel, its argument `at`, by a hundred."""
    real = getattr(module, name)

    def kernel(*arguments):
        arguments = list(arguments)
        arguments[at] = 100 * arguments[at]
        return real(*arguments)

    return ((module, name, kernel),)


def each_step(module, factor):
    """Changes that give every gradient that a module asks for `factor` times its budget."""
    real = module.product_gradient
    return (
        (
            module,
            "product_gradient",
            lambda rows, u, limits, clip, mu, rng: real(rows, u, limits, clip, factor * mu, rng),
        ),
    )
