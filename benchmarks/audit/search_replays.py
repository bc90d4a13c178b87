"""Searched by replay: every estimator, through the public function's own budget and release."""

import contextlib
import functools
import math
from dataclasses import replace

import numpy as np

import dpstats
from audit.climb import Target
from audit.extremes import Tables
from audit.harness import Broken, Release, divided, taken_anyway
from audit.replay import Replay
from audit.search_statistics import larger
from audit.tapes import patched
from dpstats.errors import ParameterError
from dpstats.explore import describe as explore_describe
from dpstats.explore import diagnose as explore_diagnose
from dpstats.explore import residuals, responses, sums
from dpstats.linear import glm_kernels, loss, prepare, score_kernels
from dpstats.location import bounding_box, median, tukey_median
from dpstats.location import mean as location_mean
from dpstats.mechanisms import _kernels, exponential, quantiles, tukey
from dpstats.mechanisms import deep_point as _deep_point
from dpstats.mechanisms import smooth_release as _smooth
from dpstats.privacy.conversions import gdp_mu
from dpstats.regression import (
    deepest,
    gradient_descent,
    medsweep,
    noisy_stats,
    tukey_em,
)
from dpstats.selection import kendall, pairs, sub_lasso

_GAUSSIAN = "replay: root of the sum of squared losses, over mu"
_PURE = "replay: sum of the widths of the log-ratios, over eps"
_SMOOTH = "replay: statistic and log of its smooth bound, over what the bound allows"
_ADDED, _REPLACED = "add-remove", "substitution"
UNIT = (-1.0, 1.0)


_APART = ("test", "smooth", "logarithm")
"""Words in the names of steps whose losses are shares of their own."""


def share(losses, guarantee):
    """The losses of a replay as a share of what the guarantee allows; infinite where something else differed.

    Where all steps are Gaussian, or choices composed with them, the promise of the whole is their budget.
    Otherwise Gaussian steps have the ``mu`` of their spends, and pure ones what the promise leaves beside the
    other steps.
    """
    if losses is None:
        return math.inf
    mus = [spend.mu for spend in guarantee.spends if spend.mu is not None]
    if len(mus) == len(guarantee.spends):
        return losses.mixed / gdp_mu(guarantee.eps, guarantee.delta)
    apart = math.fsum(s.eps for s in guarantee.spends if any(word in s.mechanism for word in _APART))
    pure = 0.0 if mus else guarantee.eps - apart
    parts = [losses.shares]
    for lost, allowed in ((losses.mu, math.hypot(*mus)), (losses.eps, pure)):
        if lost > 0:
            parts.append(lost / allowed if allowed else math.inf)
    return max(parts)


def replayed(function, formula, public_rows=False, names=("x", "y"), **arguments):
    """``opened`` of a target: the losses of a replay of a public function on pairs of tables.

    Parameters
    ----------
    function : callable
    formula : str
    public_rows : bool
        Whether the budget depends on the number of rows.
    names : tuple of str
        Columns of the tables.
    **arguments
        As the public function takes them.
    """

    @contextlib.contextmanager
    def opened():
        releases = {}
        if "fit" in arguments:
            # before anything is recorded
            _fits()

        def release_of(columns):
            n = len(columns[names[0]]) if public_rows else 0
            if n not in releases:
                # a budget may be refused for so few rows, where their number is public
                with contextlib.suppress(ParameterError):
                    releases[n] = Release(function, formula, columns, **arguments)
            return releases.get(n)

        def ratio(pair):
            tables = [
                dict(zip(names, np.ascontiguousarray(t.T), strict=True)) for t in (pair.first, pair.second)
            ]
            release = release_of(tables[0])
            if release is None:
                return 0.0
            # where a release looks at more than the columns of one design
            wider = arguments.keys() & {"select", "levels", "exposure", "correlation", "fit"}
            read = release.blocks if wider else release.rows
            rows = [read(table) for table in tables]
            usable = [np.isfinite(t).all(axis=1).sum() for t in (pair.first, pair.second)]
            # the larger table first, as matchings need it; else either
            if usable[0] < usable[1] or (usable[0] == usable[1] and pair.seed % 2):
                rows.reverse()
            # what a result is made of will do, and saves time; with a choice it holds the reduced design
            run = release.fit if "select" in arguments else release
            return share(replay.losses(run, *rows, pair.seed), release.guarantee)

        # so few rows would be refused, by the released count
        with patched(*taken_anyway()), Replay().inserted() as replay:
            yield ratio

    return opened


# -- Gaussian estimators -----------------------------------------------------------------------------------


def _each_step(module, factor):
    """Every gradient of a module at `factor` times its budget."""

    def changes():
        real = module.product_gradient

        def gradient(rows, u, limits, clip, mu, rng):
            return real(rows, u, limits, clip, factor * mu, rng)

        return ((module, "product_gradient", gradient),)

    return changes


def _unlimited_squares(V, Y, u, threshold, units, total):
    """As ``psi_moments``, with squares beyond the threshold."""
    ratio = np.minimum(np.abs(Y[:, 0] - V @ u) / threshold, 2.0**20)
    for a, part in enumerate((np.sum(ratio < 1), np.sum(ratio**2))):
        whole = int(units * part)
        total[0, a] += whole >> 32
        total[1, a] += whole & (2**32 - 1)


def _exact_count(blocks, mu, rng):
    return float(sum(len(X) for X, _ in blocks))


def _spread_jitter(models, rng):
    """Ties broken by noise in proportion to the models' spread."""
    u = 2 * rng.uniform(models.size).reshape(models.shape) - 1
    return models + 2.0**-40 * np.ptp(models, axis=0) * u


def _as_added():
    real = tukey_em.prepare

    def prepare(method, blocks, budget, *more, **named):
        guarantee = replace(budget.guarantee, neighbours="add-remove")
        return real(method, blocks, replace(budget, guarantee=guarantee), *more, **named)

    return ((tukey_em, "prepare", prepare),)


def _dearer_levels():
    real = prepare.release_levels
    return (
        (
            prepare,
            "release_levels",
            lambda blocks, columns, sizes, mu, rng: real(blocks, columns, sizes, 20 * mu, rng),
        ),
    )


def _describe(formula, columns, **arguments):
    return dpstats.describe(columns, **arguments)


def _diagnose(formula, columns, *, fit, **arguments):
    return dpstats.diagnose(_fits()[fit], columns, **arguments)


# whose `run` is what a release is got hold of by
_describe.__module__, _diagnose.__module__ = explore_describe.__name__, explore_diagnose.__name__


@functools.cache
def _fits():
    rng = np.random.default_rng(0)
    x, z = rng.standard_normal((2, 4_000))
    table = {"x": x, "z": z, "y": 1 + x - z + rng.standard_normal(4_000)}
    return {
        "ols": dpstats.ols("y ~ x + z", table, eps=50, seed=1),
        "logit": dpstats.logit("I(y > 0) ~ x", table, eps=50, seed=1),
        "poisson": dpstats.poisson("np.floor(np.abs(y)) ~ x", table, eps=50, seed=1),
    }


def _dearer_counts():
    real = sums.noisy_counts
    return (
        (
            responses,
            "noisy_counts",
            lambda rows, cells, shape, mu, rng: real(rows, cells, shape, 20 * mu, rng),
        ),
    )


def _dearer_sums():
    real = residuals.noisy_sum
    return (
        (
            residuals,
            "noisy_sum",
            lambda rows, terms, m, length, mu, rng: real(rows, terms, m, length, 10 * mu, rng),
        ),
    )


def _gaussian_targets():
    two, three = Tables(2, _ADDED), Tables(3, _ADDED)
    unshortened = Broken("gradients not shortened", larger(score_kernels, "product_gradient", 4))
    unclipped = Broken("rows of the whitening not clipped", larger(_kernels, "clipped_gram", 6))
    xzy = ("x", "z", "y")

    def case(name, space, function, formula, broken, evaluations=1_000, **more):
        opened = replayed(function, formula, **more)
        return Target(name, space.relation, _GAUSSIAN, space, opened, broken, evaluations)

    bounds, both = dict.fromkeys(xzy, UNIT), {"x": UNIT, "y": UNIT}
    yield case("ols", three, dpstats.ols, "y ~ x + z", unshortened, names=xzy, eps=1, bounds=bounds)
    yield case("ols, no bounds", two, dpstats.ols, "y ~ x", unclipped, eps=100)
    yield case("ols, no constant", two, dpstats.ols, "y ~ x - 1", unshortened, eps=100, winsorize=True)
    yield case("ols, select", three, dpstats.ols, "y ~ x + z",
               Broken("scores of the choice twice as sure", _surer(kendall)), names=xzy, eps=1,
               bounds=bounds, select=1)  # fmt: skip
    yield case("ols, a square and levels", three, dpstats.ols, "y ~ x + I(x ** 2) + z",
               Broken("counts of levels at twenty times their budget", _dearer_levels), names=xzy, eps=100,
               levels={"z": [-1.0, 0.0, 1.0]})  # fmt: skip
    yield case("huber", two, dpstats.huber, "y ~ x",
               Broken("each round at five times its budget", _each_step(loss, 5)), eps=1,
               bounds=both)  # fmt: skip
    yield case("huber, no bounds", three, dpstats.huber, "y ~ x + z",
               Broken("squares of residuals without a limit", ((score_kernels, "psi_moments",
               _unlimited_squares),)),
               names=xzy, eps=100)  # fmt: skip
    yield case("adassp", two, dpstats.adassp, "y ~ x",
               Broken("products not shortened", larger(score_kernels, "product_gradient", 4)), eps=1,
               standardize=False)  # fmt: skip
    yield case("adassp, no bounds", three, dpstats.adassp, "y ~ x + z", unclipped, names=xzy, eps=100)
    yield case("boosted_adassp", two, dpstats.boosted_adassp, "y ~ x",
               Broken("products not shortened", larger(score_kernels, "product_gradient", 4)), eps=1,
               standardize=False,
               rounds=5)  # fmt: skip
    yield case("boosted_adassp, no bounds", three, dpstats.boosted_adassp, "y ~ x + z",
               Broken("squares of residuals not limited", larger(score_kernels, "residual_moments", 3)),
               names=xzy, eps=100)  # fmt: skip
    yield case("gradient_descent", two, dpstats.gradient_descent, "y ~ x",
               Broken("ten steps, each at the whole budget", _each_step(gradient_descent, math.sqrt(10))),
               eps=1,
               standardize=False, clip=1.0, steps=10)  # fmt: skip
    yield case(
        "gradient_descent, no bounds",
        two,
        dpstats.gradient_descent,
        "y ~ x",
        unshortened,
        eps=100,
    )
    yield case("logit", two, dpstats.logit, "I(y > 0) ~ x",
               Broken("parts of the score not shortened", larger(glm_kernels, "score", 5)),
               eps=100)  # fmt: skip
    yield case("poisson", two, dpstats.poisson, "y ~ x",
               Broken("squares of the parts without a limit", larger(glm_kernels, "part_squares", 6)),
               eps=100)  # fmt: skip
    yield case("poisson, exposure", three, dpstats.poisson, "y ~ x",
               Broken("information not limited", larger(glm_kernels, "information", 6)), names=xzy, eps=100,
               exposure="z")  # fmt: skip
    yield case("mean", Tables(1, _ADDED), dpstats.mean, "y ~ 1",
               Broken("the exact number of rows", ((location_mean, "release_count", _exact_count),)),
               names=("y",), eps=1,
               bounds={"y": UNIT})  # fmt: skip
    yield case("mean, no bounds", two, dpstats.mean, "x + y ~ 1",
               Broken("squares of values without a limit", larger(score_kernels, "residual_moments", 3)),
               eps=100)  # fmt: skip
    near = Broken(
        "the search for quartiles as if a row moved it by a fifth",
        ((quantiles, "bisection_sensitivity", lambda q: 0.2),),
    )
    levels = {"z": [-1.0, 0.0, 1.0]}
    yield case("describe", three, _describe, "", near, names=xzy, eps=100, correlation=True, levels=levels)
    sums_too = Broken("sums by bin at ten times their budget", _dearer_sums)
    yield case("diagnose, ols", three, _diagnose, "", sums_too, names=xzy, eps=100, fit="ols")
    dearer = Broken("counts at twenty times their budget", _dearer_counts)
    yield case("diagnose, logit", two, _diagnose, "", dearer, eps=100, fit="logit")
    yield case("diagnose, poisson", two, _diagnose, "", dearer, eps=100, fit="poisson")
    fits = _GAUSSIAN + "; subset fits that differ, and the margin's change"
    yield replace(case("tukey_em", two, dpstats.tukey_em, "y ~ x",
                       Broken("jitter in proportion to the fits' spread", ((tukey, "jitter",
                       _spread_jitter),)), eps=100, models=8),
                  ratio=fits)  # fmt: skip
    yield replace(case("tukey_em, substitution", replace(two, relation=_REPLACED), dpstats.tukey_em, "y ~ x",
                       Broken("preparation as for rows added", _as_added), eps=100, models=8,
                       neighbours=_REPLACED), ratio=fits)  # fmt: skip


# -- pure estimators ---------------------------------------------------------------------------------------


def _surer(module):
    """Every choice of a module as if its scores were twice as sure."""
    return ((module, "WIDTH", {relation: width / 2 for relation, width in module.WIDTH.items()}),)


def _weightier():
    """Quantiles at twice their budget."""
    real = exponential.log_weights

    def log_weights(cells, q, eps, neighbours):
        return real(cells, q, 2 * eps, neighbours)

    return ((exponential, "log_weights", log_weights),)


def _as_median():
    real = exponential.log_weights
    return (
        (exponential, "log_weights", lambda cells, q, eps, neighbours: real(cells, 0.5, eps, neighbours)),
    )


def _dearer_interval():
    return divided(
        median, lambda b: replace(b, intervals=tuple(replace(i, eps=2 * i.eps) for i in b.intervals))
    )


def _some_unpaid():
    """Medsweep with the slopes among covariates for nothing."""

    def changed(budget):
        spends = budget.guarantee.spends
        paid = sum(not s.step.startswith(("slope of", "number of")) for s in spends)
        return replace(budget, eps_each=(budget.guarantee.eps - budget.eps_count) / paid)

    return divided(medsweep, changed)


def everywhere(blocks, terms, k, m, rng):
    """Votes of subsets that all hold all rows."""
    X, y = (np.concatenate(part) for part in zip(*blocks, strict=True))
    return m * sub_lasso.votes(X, y[:, 0], np.arange(len(terms) + 1), k).astype(float)


def _own_range(real):
    def line(x, y, *more):
        return real(x, y / (np.ptp(y) or 1.0) if len(y) else y, *more)

    return line


def _own_units(real):
    """Depth over directions that move with the data."""

    def depths(points, Z, V):
        unit = np.median(np.abs(Z - np.median(Z, axis=0)), axis=0) if len(Z) else np.ones(V.shape[1])
        unit = np.where(unit > 0, unit, 1.0)
        return real(points / unit, Z / unit, V)

    return depths


def _pure_targets():
    one, two = Tables(1, _ADDED), Tables(2, _ADDED)
    pair, three = Tables(2, _REPLACED), Tables(3, _ADDED)
    y, xzy = ("y",), ("x", "z", "y")
    both = {"x": UNIT, "y": UNIT}
    twice = Broken("factor 2 dropped", _weightier)

    def case(name, space, function, formula, broken, evaluations=1_500, **more):
        opened = replayed(function, formula, public_rows=space.relation == _REPLACED, **more)
        return Target(name, space.relation, _PURE, space, opened, broken, evaluations)

    def chosen(name, space, method, broken, evaluations=1_500, **more):
        more = {"k": 1, "eps": 1, "names": xzy} | more
        formula = "y ~ " + " + ".join(more["names"][:-1])
        opened = replayed(dpstats.select_features, formula, method=method, neighbours=space.relation, **more)
        return Target(f"select_features, {name}", space.relation, _PURE, space, opened, broken, evaluations)

    yield case("median", one, dpstats.median, "y ~ 1", twice, names=y, eps=1, alpha=None)
    yield case("median, with its interval", one, dpstats.median, "y ~ 1",
               Broken("interval at twice its eps", _dearer_interval), names=y, eps=1,
               bounds={"y": UNIT})  # fmt: skip
    yield case("quantile", one, dpstats.quantile, "y ~ 1", Broken("sensitivity of the median", _as_median),
               names=y,
               eps=1, q=0.9, alpha=None)  # fmt: skip
    whole = ((bounding_box, "per_round", lambda eps, delta, k: eps),)
    yield case("bounding_box", two, dpstats.bounding_box, "x + y ~ 1",
               Broken("every column at the whole eps", whole), eps=1, delta=0)  # fmt: skip
    yield case("medsweep, sequential", pair, dpstats.medsweep, "y ~ x", twice, eps=400, delta=0)
    yield case("medsweep, sequential, two covariates", Tables(3, _REPLACED), dpstats.medsweep, "y ~ x + z",
               Broken("a slope among covariates for nothing", _some_unpaid), 1_500, names=xzy, eps=400,
               delta=0)  # fmt: skip
    yield case("theil_sen", replace(pair, sizes=(14, 24)), dpstats.theil_sen, "y ~ x",
               Broken("eps not divided by the matchings", _weightier), 1_500, eps=100,
               matchings=2)  # fmt: skip
    yield case("noisy_stats", pair, dpstats.noisy_stats, "y ~ x",
               Broken("sensitivities a quarter", ((noisy_stats, "_SENSITIVITY", 0.25),)), eps=1,
               bounds=both)  # fmt: skip
    small = replace(pair, sizes=(0, 12))
    real = deepest.deep_line
    yield case("deepest_regression", small, dpstats.deepest_regression, "y ~ x",
               Broken("factor 2 dropped", ((deepest, "deep_line", lambda x, y, eps, *more: real(x, y,
               2 * eps, *more)),)), 1_000,
               eps=1)  # fmt: skip
    yield case("deepest_regression, bounds", small, dpstats.deepest_regression, "y ~ x",
               Broken("response divided by its own range", ((deepest, "deep_line", _own_range(real)),)),
               1_500,
               eps=1, bounds=both)  # fmt: skip
    own = Broken("depth in units of the data", ((_deep_point, "depths", _own_units(_deep_point.depths)),))
    for d, bounds in ((2, both), (2, None), (3, None), (5, None)):
        names = ("x", "y", "z", "u", "v")[:d]
        space = Tables(d, _REPLACED, (8, 16))
        name = f"tukey_median, {d} columns" + (", bounds" if bounds else "")
        # a large eps, as a release of so few rows is refused at a small one
        yield case(name, space, dpstats.tukey_median, " + ".join(names) + " ~ 1", own, 1_000,
                   names=names, eps=100, bounds=bounds, directions=20)  # fmt: skip
    surer = Broken("width halved", _surer(kendall))
    yield chosen("kendall", three, "kendall", surer)
    yield chosen("kendall, substitution", replace(three, relation=_REPLACED), "kendall", surer)
    yield chosen(
        "kendall, two of three", Tables(4, _ADDED), "kendall", surer, 1_500, k=2, names=("x", "z", "u", "y")
    )
    yield chosen("pairs", three, "pairs", Broken("width halved", _surer(pairs)))
    yield chosen(
        "pairs, substitution",
        replace(three, relation=_REPLACED),
        "pairs",
        Broken("width halved", _surer(pairs)),
    )
    yield chosen("sub_lasso", three, "sub_lasso",
                 Broken("every subset holds all rows", ((sub_lasso, "_count_votes", everywhere),)),
                 1_500)  # fmt: skip


# -- smooth sensitivity ------------------------------------------------------------------------------------

_STEEP = 1e3


def _steep(module, name, at):
    """A bound computed as if ``beta``, its argument `at`, were so large that nothing but the local
    sensitivity counts.

    `name` may be that of a method, as in ``"Depths.smooth_bound"``.
    """

    def changes():
        *owners, last = name.split(".")
        owner = functools.reduce(getattr, owners, module)
        real = getattr(owner, last)

        def bound(*arguments):
            arguments = list(arguments)
            arguments[at] = _STEEP
            return real(*arguments)

        return ((owner, last, bound),)

    return changes


def _one_higher():
    real = _smooth.truncated

    def truncated(*arguments):
        bound, margin = real(*arguments)
        return bound, 2 * margin

    return ((_smooth, "truncated", truncated),)


def _smooth_targets():
    small = Tables(2, _REPLACED, (0, 12), (-1.0, -0.5, 0.0, 0.5, 1.0))
    one = replace(small, columns=1)
    both = {"x": UNIT, "y": UNIT}
    delta = {"eps": 1, "delta": 0.01, "public_rows": True}
    tested = {"eps": 30, "delta": 0.1, "public_rows": True}
    heavy = {"mechanism": "smooth"}
    margin = Broken("margin of the test twice as high", _one_higher)

    def local(module, name, at):
        return Broken("local sensitivity, not smoothed", _steep(module, name, at))

    def case(name, space, function, formula, broken, evaluations=1_500, **more):
        opened = replayed(function, formula, **more)
        return Target(name, _REPLACED, _SMOOTH, space, opened, broken, evaluations)

    yield case("median, smooth", one, dpstats.median, "y ~ 1", local(median, "smooth_median_bound", 1),
               names=("y",), bounds={"y": UNIT}, **heavy, **delta)  # fmt: skip
    yield case("median, smooth, no bounds", replace(one, sizes=(16, 26)), dpstats.median, "y ~ 1", margin,
               names=("y",), **heavy, **(tested | {"eps": 10}))  # fmt: skip
    yield case("deepest_regression, smooth", small, dpstats.deepest_regression, "y ~ x",
               local(deepest, "LineDepths.smooth_bound", 2), bounds=both, **heavy, **delta)  # fmt: skip
    yield case("deepest_regression, smooth, bounds of the response", small, dpstats.deepest_regression,
               "y ~ x",
               local(deepest, "LineDepths.smooth_bound", 2), bounds={"y": UNIT}, **heavy,
               **delta)  # fmt: skip
    yield case("deepest_regression, smooth, no bounds", replace(small, sizes=(25, 31)),
               dpstats.deepest_regression, "y ~ x",
               margin, evaluations=1_000, **heavy, **tested)  # fmt: skip
    yield case("tukey_median, smooth", small, dpstats.tukey_median, "x + y ~ 1",
               local(tukey_median, "Depths.smooth_bound", 2), evaluations=1_500, bounds=both, **heavy,
               **delta)  # fmt: skip
    yield case("tukey_median, smooth, no bounds", replace(small, sizes=(35, 40)), dpstats.tukey_median,
               "x + y ~ 1",
               margin, evaluations=1_000, **heavy, **tested)  # fmt: skip
    yield case("medsweep, joint", small, dpstats.medsweep, "y ~ x", local(medsweep, "smooth_slope_bound", 3),
               evaluations=1_500, variant="joint", clamp=1.0, **delta)  # fmt: skip


TARGETS = (*_gaussian_targets(), *_pure_targets(), *_smooth_targets())
