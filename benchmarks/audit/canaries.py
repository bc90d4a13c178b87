"""Canaries: rows that strain nearly all steps of an estimator at once, where few rows would not."""

import math

import numpy as np

import dpstats
from audit.harness import (
    DELTA,
    Broken,
    Case,
    calls,
    each_step,
    pair,
    taken_anyway,
    transcripts,
    units,
    unlimited,
)
from audit.mechanisms import louder
from audit.search_units import by_row
from audit.tapes import patched
from dpstats.linear import glm_kernels, loss
from dpstats.linear.deep_fit import depth_of
from dpstats.mechanisms import ptr, tukey
from dpstats.regression import tukey_em

__all__ = ["CASES", "ROUNDS_EPS", "far_rows"]

# -- rounds: one row that strains nearly all steps at once ---------------------------------------------------

ROUNDS_EPS = 4
"""Code and accounting are those of ``eps = 1``, at which the bound would be off by most of ``mu`` itself."""


def _joined(table, **row):
    """A table and that with a row more, or with several."""
    return table, {name: np.append(values, row[name]) for name, values in table.items()}


def far_rows():
    """Tables of 400 rows, and those with one row more, for the estimators by rounds.

    A row far out in both columns moves count, locations, scales, whitening, gradients, sizes, excess, outer
    products and residual variance as far as they can be moved, whatever was released before. Only the Gram
    matrix for the standard errors and the choice of limits leave it out, and in `huber` the residual scale
    and the share of residuals within the threshold.

    In a logit the row has the class that its covariate speaks against: that moves the scores as far as they
    can be moved, and adds hardly anything to the information matrices.

    Returns
    -------
    dict of callable to (dict, dict)
    """
    g = np.random.default_rng(1)
    x = g.standard_normal(400)
    line = {"x": x, "y": x + g.standard_normal(400)}
    shares = {"x": x, "y": 1.0 * (g.random(400) < 1 / (1 + np.exp(-x)))}
    counts = {"x": x, "y": 1.0 * g.poisson(np.exp(x / 2))}
    return {
        dpstats.ols: _joined(line, x=1e6, y=1e9),
        dpstats.huber: _joined(line, x=1e6, y=1e9),
        dpstats.logit: _joined(shares, x=-10.0, y=1.0),
        dpstats.poisson: _joined(counts, x=-1e6, y=1e6),
    }


def _rounds_cases():
    def case(name, neighbours, build, broken, **more):
        return Case(name, neighbours, transcripts(build), broken, "gdp", DELTA, eps=ROUNDS_EPS, system=False,
                    setup=lambda: patched(*taken_anyway()), **more)  # fmt: skip

    tables = far_rows()
    unshortened = Broken("gradients not shortened", unlimited("product_gradient", 4), runs=400)
    dearer = Broken("each round at five times its budget", each_step(loss, 5), runs=800)
    halved = Broken("noise halved", louder(2), runs=1_500)
    any_score = Broken("scores not limited", unlimited("score", 5, glm_kernels), runs=300)
    for function, broken, runs, quick in (
        (dpstats.ols, unshortened, 3_000, 0),
        (dpstats.huber, dearer, 2_000, 0),
        (dpstats.logit, halved, 6_000, 800),
        (dpstats.poisson, any_score, 3_000, 0),
    ):
        build = pair(function, "y ~ x", *tables[function], eps=ROUNDS_EPS)
        yield case(function.__name__, "400 rows, and one far out more", build, broken,
                   runs=runs, quick=quick)  # fmt: skip
    twice = {name: np.repeat(values, 2) for name, values in tables[dpstats.ols][0].items()}
    twice["id"] = np.repeat(np.arange(400), 2)
    unit = {"x": np.full(1_000, 1e6), "y": np.full(1_000, 1e9), "id": np.full(1_000, 400)}
    yield case("ols, unit", "400 units of two rows, and one of a thousand far out more",
               units(dpstats.ols, "y ~ x", *_joined(twice, **unit), eps=ROUNDS_EPS),
               Broken("limited row by row", by_row(), runs=300), runs=4_000, quick=200)  # fmt: skip


# -- TukeyEM: the test and the draw behind it ----------------------------------------------------------------


class _Dealt:
    """Randomness by which rows go to the subsets in turn."""

    seeded = True

    def integers(self, m, size):
        return np.arange(size) % m


def _dealt():
    """A context in which it is known which row is in which subset, as the proof lets it be."""
    real = tukey_em.subset_moments

    def moments(blocks, affine, m, rng, *rest):
        return real(blocks, affine, m, _Dealt(), *rest)

    return patched((tukey_em, "subset_moments", moments))


def _tukey_em_cases():
    """A row to a subset: fits at -1/4, 0 and 1, as many at either end as the test wants at least, and a row
    that takes one from -1/4 to 1.

    The margin falls from the threshold to one below. Points below 0 have one fit fewer on their lower side,
    and those above one more on their upper, where most of the volume is.
    """
    needed = ptr.threshold(0.3, DELTA)  # 30 % of eps is the test's
    t = needed + 2
    m = next(m for m in range(t, 10 * t) if depth_of(m) == t)
    ends = t + 1 + needed
    rows = {"x": np.ones(m), "y": np.repeat([-0.25, 0.0, 1.0], [ends, m - 2 * ends, ends])}
    tables = _joined(rows, x=1e6, y=1e6)
    build = pair(dpstats.tukey_em, "y ~ x - 1", *tables, models=m, whiten=False, delta=DELTA, fit=True)

    def place(cut):
        return lambda fit: math.nan if fit is None else float(fit.estimates[0] > cut)

    real = tukey.sample
    published = ((tukey, "sample", lambda boxes, t, eps, rng: real(boxes, t, 2 * eps, rng)),)
    yield Case("tukey_em", f"{m} fits at the threshold of the test, and one of them moved from end to end",
               calls(build, place(0.0)), Broken("factor 2 dropped", published, runs=20_000),
               delta=DELTA, runs=25_000, system=False, setup=_dealt)  # fmt: skip

    delta = 0.05
    none, one = {"x": np.empty(0), "y": np.empty(0)}, {"x": np.ones(1), "y": np.ones(1)}
    build = pair(dpstats.tukey_em, "y ~ x - 1", none, one, models=8, whiten=False, delta=delta, fit=True)
    yield Case("tukey_em, unsafe fits", "no row, and one: eight fits that are not safe",
               calls(build, place(1e-9)),
               Broken("safety test ignored", ((tukey_em, "passes", lambda *_: True),), runs=1_000),
               delta=delta, runs=5_000,
               quick=1_000)  # fmt: skip


CASES = (*_rounds_cases(), *_tukey_em_cases())
