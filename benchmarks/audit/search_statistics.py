"""Searched by themselves: building blocks, on tables, matrices of fits and the few numbers that a law depends
on."""

import contextlib
import functools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
from scipy.special import logsumexp

from audit.climb import Target
from audit.extremes import Box, Tables
from audit.harness import Broken, unlimited
from audit.replay import Replay
from audit.tapes import patched
from dpstats.engines.local import Rows
from dpstats.linear import line_widths, score_kernels, scores
from dpstats.linear import prepare as _prepare
from dpstats.linear.budget import LinearBudget
from dpstats.linear.clip import edges_about
from dpstats.linear.gradients import Gradients
from dpstats.linear.public import PublicDesign
from dpstats.linear.whitened import Frame, Whitened
from dpstats.location import median
from dpstats.mechanisms import (
    _kernels,
    exponential,
    noise,
    size,
    smooth_sensitivity,
    spread,
    standardize,
    student,
    tukey,
    whiten,
)
from dpstats.mechanisms.rank_interval import RankInterval
from dpstats.mechanisms.rng import Randomness
from dpstats.privacy.guarantee import Guarantee

_ADDED, _REPLACED = "add-remove", "substitution"
_WIDTH = "width of the log-ratio over all answers, over eps"
_LENGTH = "shift in units of the noise, over mu"


def stepped(run, part, allowed):
    """``opened`` of a target: what the steps of ``run(rows, rng)`` lose, over `allowed`. Unusable rows are
    left out before."""

    @contextlib.contextmanager
    def opened():
        with Replay().inserted() as replay:

            def ratio(pair):
                tables = [t[np.isfinite(t).all(axis=1)] for t in (pair.first, pair.second)]
                losses = replay.losses(run, *tables, pair.seed)
                return math.inf if losses is None else getattr(losses, part) / allowed

            yield ratio

    return opened


# -- exponential mechanisms --------------------------------------------------------------------------------


def _exponential_targets():
    real = exponential.log_weights
    twice = (
        (exponential, "log_weights", lambda cells, q, eps, neighbours: real(cells, q, 2 * eps, neighbours)),
    )
    as_added = (
        (exponential, "log_weights", lambda cells, q, eps, neighbours: real(cells, q, eps, "add-remove")),
    )

    def quantile(q, relation, bounds=None):
        def run(rows, rng):
            return exponential.quantile(rows[:, 0], q, 1.0, rng, neighbours=relation, bounds=bounds)

        return stepped(run, "eps", 1.0)

    added, replaced = Tables(1, _ADDED), Tables(1, _REPLACED)
    yield Target(
        "exponential.quantile, q = 0.5",
        _ADDED,
        _WIDTH,
        added,
        quantile(0.5, _ADDED),
        Broken("factor 2 dropped", twice),
    )
    yield Target("exponential.quantile, q = 0.1", _REPLACED, _WIDTH, replaced,
                 quantile(0.1, _REPLACED, (-1.0, 1.0)),
                 Broken("sensitivity of a row added", as_added))  # fmt: skip

    def scale(rows, rng):
        return line_widths.half_mass_spread(rows[:, 0], 1.0, rng)

    scores = spread.spread_scores
    for space in (added, replaced):
        yield Target("spread.half_mass_spread", space.relation, _WIDTH, space, stepped(scale, "eps", 1.0),
                     Broken("scores three times as large",
                            ((spread, "spread_scores", lambda x: 3 * scores(x)),)))  # fmt: skip

    def half_width(rows, rng):
        return RankInterval(0.5, 0.05, 1.0).release(np.sort(rows[:, 0]), 0.25, rng)

    own = RankInterval.sensitivity
    half = property(lambda self: own.fget(self) / 2)
    yield Target("_rank_interval.RankInterval", _ADDED, _WIDTH, added, stepped(half_width, "eps", 1.0),
                 Broken("factor 2 dropped", ((RankInterval, "sensitivity", half),)))  # fmt: skip

    def of_values(rows, rng):
        return median.release_size(np.sort(rows[:, 0]), 1.0, rng)

    counted = size.scores
    doubled = ((size, "scores", lambda x, exponents: 2 * counted(x, exponents)),)
    yield Target("size.release_size", _ADDED, _WIDTH, added, stepped(of_values, "eps", 1.0),
                 Broken("scores twice as large", doubled))  # fmt: skip


# -- laws of noise -----------------------------------------------------------------------------------------


def _student_density(t):
    return -1.5 * math.log(2 + t * t)


@contextlib.contextmanager
def _student_ratio():
    parameters = student.StudentNoise.of(1.0)

    def ratio(point):
        """Scales 1 and ``e^lam``, the centres as far apart as either bound allows; the log-ratio at an
        answer."""
        lam = (2 * point[0] - 1) * parameters.beta
        shift = point[1] * parameters.alpha * min(1.0, math.exp(lam))
        at = math.tan(math.pi * (0.999 * point[2] - 0.4995))
        log = _student_density(at) - _student_density((at - shift) * math.exp(-lam)) + lam
        return abs(log) / parameters.eps

    yield ratio


@contextlib.contextmanager
def _laplace_ratio():
    eps, delta = 1.0, 1e-3
    parameters = smooth_sensitivity.SmoothNoise.of(eps, delta)
    grid = np.concatenate([-np.geomspace(200, 1e-4, 4000), [0.0], np.geomspace(1e-4, 200, 4000)])

    def ratio(point):
        """The divergence of two Laplace laws, by a sum over small cells: a lower bound, as cells merge
        answers."""
        lam = (2 * point[0] - 1) * parameters.beta
        shift = point[1] * parameters.alpha * min(1.0, math.exp(lam))

        def cells(centre, scale):
            z = (grid - centre) / scale
            return np.diff(
                np.where(z < 0, 0.5 * np.exp(np.minimum(z, 0)), 1 - 0.5 * np.exp(-np.maximum(z, 0)))
            )

        p, q = cells(0.0, 1.0), cells(shift, math.exp(lam))
        left = eps - parameters.eps_scale
        return max(np.sum(np.maximum(a - math.exp(left) * b, 0)) for a, b in ((p, q), (q, p))) / delta

    yield ratio


def _rougher(kind):
    """Parameters of a kind of noise whose ``beta`` is a fifth too large."""
    of = kind.of

    def too_large(*arguments):
        parameters = of(*arguments)
        return replace(parameters, beta=1.2 * parameters.beta)

    return Broken("beta a fifth too large", ((kind, "of", too_large),))


def _lattice_ratio(law):
    """The distance of two vectors on the lattice of their noise, in units of that noise, over the budget."""

    @contextlib.contextmanager
    def opened():
        seen = []

        def counted(kind, scale, vector):
            return lambda units: seen.append((np.array(units, dtype=object), scale)) or units

        release = {"gaussian": noise.gaussian, "laplace": noise.laplace}[law]

        def ratio(point):
            d = (len(point) - 3) // 2
            sensitivity, budget = 1 + point[0], 2.0 ** (20 * point[1] - 10)
            first = 2.0 ** (40 * point[2] - 30) * (2 * point[3 : 3 + d] - 1)
            way = 2 * point[3 + d :] - 1
            order = 2 if law == "gaussian" else 1
            second = first + sensitivity * way / (np.linalg.norm(way, order) or 1.0)
            exact = [Fraction(b) - Fraction(a) for a, b in zip(first.tolist(), second.tolist(), strict=True)]
            length = math.sqrt(sum(x * x for x in exact)) if order == 2 else float(sum(map(abs, exact)))
            seen.clear()
            for values in (first, second):
                release(values, max(sensitivity, length * (1 + 2.0**-52)), budget, Randomness())
            (a, scale), (b, _) = seen
            return float(np.linalg.norm((a - b).astype(float), order)) / scale / budget

        with patched((noise, "_integer_noise", counted)):
            yield ratio

    return opened


def _law_targets():
    yield Target("student.StudentNoise", "centre and scale as far as the bound lets them",
                 "log-ratio over eps", Box(3), _student_ratio,
                 _rougher(student.StudentNoise))  # fmt: skip
    yield Target("smooth_sensitivity.SmoothNoise", "centre and scale as far as the bound lets them",
                 "divergence at eps, over delta",
                 Box(2), _laplace_ratio, _rougher(smooth_sensitivity.SmoothNoise))  # fmt: skip
    narrow = Broken("noise a millionth too narrow", ((noise, "_DISCRETE", -(2.0**-20)),))
    for law in ("laplace", "gaussian"):
        yield Target(f"noise.{law}", "three numbers at the distance of the sensitivity",
                     "distance on the lattice over the budget", Box(9),
                     _lattice_ratio(law), narrow)  # fmt: skip


# -- Tukey boxes -------------------------------------------------------------------------------------------


def _depth_share(models):
    return 1 + len(models) // 4


@contextlib.contextmanager
def _margin_ratio():
    def ratio(pair):
        eps = 2.0 ** (pair.seed % 5 - 2)
        margins = [
            tukey.margin(tukey.Boxes.of(models), _depth_share(models), eps, 0.3)
            for models in (pair.first, pair.second)
        ]
        return float(abs(margins[0] - margins[1]))

    yield ratio


def _log_law(models, edges, t, eps):
    """Logs of the probabilities that the draw gives to the cells between edges, shape (cells, ...) one axis a
    coordinate."""
    S, depth, volume = np.sort(models, axis=0), None, 0.0
    for j, cuts in enumerate(edges):
        below = np.searchsorted(S[:, j], cuts[:-1], side="right")
        shape = [-1 if i == j else 1 for i in range(len(edges))]
        own = np.minimum(below, len(S) - below).reshape(shape)
        depth = own if depth is None else np.minimum(depth, own)
        volume = volume + np.log(np.diff(cuts)).reshape(shape)
    weights = np.where(depth >= t, volume + eps / 2 * depth, -np.inf)
    return weights - logsumexp(weights)


@contextlib.contextmanager
def _divergence_ratio():
    def ratio(pair):
        eps, tables = 2.0 ** (pair.seed % 4 - 2), (pair.first, pair.second)
        t = _depth_share(pair.first)
        allowed = min(tukey.unsafety(tukey.Boxes.of(models), t, 0, eps) for models in tables)
        if not allowed < 0:
            return 0.0
        edges = [
            np.unique(np.concatenate([models[:, j] for models in tables])) for j in range(pair.first.shape[1])
        ]
        p, q = (np.exp(_log_law(models, edges, t, eps)) for models in tables)
        lost = max(float(np.sum(np.maximum(a - math.exp(eps) * b, 0.0))) for a, b in ((p, q), (q, p)))
        # what sums of doubles may be off by
        return math.exp(min(math.log(lost - 1e-13) - allowed, 700.0)) if lost > 1e-13 else 0.0

    yield ratio


def _tukey_targets():
    real = tukey.unsafety

    def other(what, unsafety):
        return Broken(what, ((tukey, "unsafety", unsafety),))

    spread_out = {"special": (-1.0, 0.0, 1.0, 2.0, 10.0), "missing": False, "largest": 2.0**200}
    for k in (1, 2):
        fits = Tables(k, _REPLACED, (11, 29), **spread_out)
        yield Target(f"tukey.margin, {k} axes", "one fit replaced", "change of the margin", fits,
                     _margin_ratio,
                     other("layers as they are, at every distance",
                           lambda boxes, t, k, eps: real(boxes, t, 0, eps) + eps * k / 8))  # fmt: skip
        few = Tables(k, _REPLACED, (9, 25), **spread_out)
        yield Target(f"tukey.unsafety, {k} axes", "one fit replaced", "exact divergence at eps, over f_0",
                     few, _divergence_ratio,
                     other("without the factor e^eps", lambda boxes, t, k, eps: real(boxes, t, k, eps) - eps),
                     3_000)  # fmt: skip


# -- Gaussian sums over the rows -----------------------------------------------------------------------------


def _arrays(rows):
    return Rows(rows[:, :-1], rows[:, -1:])


def _signs(rng, *shape):
    """Numbers of all sizes and both signs, the same for neighbours."""
    u = 2 * rng.uniform(math.prod(shape)).reshape(shape) - 1
    return np.sign(u) * 2.0 ** (20 * np.abs(u) - 12)


def _plain(low=-np.inf, high=np.inf):
    affine = whiten.Affine(np.arange(3), np.zeros(3), np.ones(3))
    return Frame(affine, np.eye(2), np.full(2, low), np.full(2, high))


def larger(module, name, at):
    """Changes that multiply the limit of a kernel, its argument `at`, by a hundred."""
    return functools.partial(unlimited, name, at, module)


def _unlimited(module, name, at):
    return Broken("limit skipped", larger(module, name, at))


def _everywhere(V, Y, u, *more):
    """A row that counts in every cell of a histogram, the last argument."""
    more[-1][:] += len(V)


def _halved():
    """Steps whose noise is for half their sensitivity."""

    def gaussian(values, sensitivity, mu, rng, *more):
        return noise.gaussian(values, sensitivity / 2, mu, rng, *more)

    return tuple((module, "gaussian", gaussian) for module in (scores, standardize))


_STEPS = "count", "location", "scale", "response_location", "response_scale"


def _prepared(relation):
    """All steps before a regression; seven of ``mu = 1``."""
    public = PublicDesign(True, np.array([1, 2]), np.zeros(3), np.ones(3), None)
    stages = (whiten.Stage(2.0, 0.05, 1.0), whiten.Stage(4.0, 0.05, 1.0, False))

    def run(rows, rng):
        guarantee = Guarantee(1.0, 1e-6, relation, "approximate")
        budget = LinearBudget(guarantee, dict.fromkeys(_STEPS, 1.0), public, stages)
        blocks = Rows(np.column_stack([np.ones(len(rows)), rows[:, :-1]]), rows[:, -1:])
        return _prepare.prepare("audit", blocks, budget, rng, math.sqrt(2.0), lambda count: None)

    return stepped(run, "mu", math.sqrt(7.0))


def _as_added():
    real = _prepare.prepare

    def prepare(method, blocks, budget, *more):
        guarantee = replace(budget.guarantee, neighbours=_ADDED)
        return real(method, blocks, replace(budget, guarantee=guarantee), *more)

    return ((_prepare, "prepare", prepare),)


def _sum_targets():
    b, k, g = scores, score_kernels, Gradients
    space = Tables(3, _ADDED)

    def target(name, run, broken):
        return Target(
            name,
            _ADDED,
            _LENGTH,
            space,
            stepped(lambda rows, rng: run(_arrays(rows), rng), "mu", 1.0),
            broken,
        )

    def some_limits(rng):
        return tuple(np.abs(_signs(rng, 2)))

    def product(rows, rng):
        threshold, clip = some_limits(rng)
        return b.product_gradient(rows, _signs(rng, 2), threshold, clip, 1.0, rng)

    def outer(rows, rng):
        threshold, clip = some_limits(rng)
        return b.product_gram(rows, _signs(rng, 2), threshold, clip, 1.0, rng)

    def inner(rows, rng):
        threshold, clip = some_limits(rng)
        radius2 = float(np.abs(_signs(rng, 1))[0])
        return b.inner_gram(rows, _signs(rng, 2), threshold, clip, radius2, 1.0, rng)

    def counts(rows, rng):
        threshold, size = some_limits(rng)
        return b.product_counts(rows, _signs(rng, 2), threshold, edges_about(size), 1.0, rng)

    def residual(rows, rng):
        radius, clip = some_limits(rng)
        short = Whitened(rows, _plain(), radius)
        return b.summed_gradient(g(short, radius), _signs(rng, 2), clip, 1.0, rng)

    def gram(rows, rng):
        affine = whiten.Affine(np.arange(3), _signs(rng, 3), np.abs(_signs(rng, 3)))
        return whiten.release_gram(
            rows, affine, _signs(rng, 3, 3), float(np.abs(_signs(rng, 1))[0]), 1.0, rng
        )

    def outside(rows, rng):
        return b.outside_score(rows, _plain(-0.5, 0.5), _plain(-2.0, 2.0), _signs(rng, 2), 1.0, rng)

    def located(rows, rng):
        return standardize.standardize(rows, [standardize.Columns(0, np.arange(2), 1.0, 1.0)], 10.0, rng)

    def levels(rows, rng):
        numbers = np.column_stack([rows.Y, rows.X])
        blocks = Rows(rows.X, np.clip(np.rint(numbers), -1, 3) + 1)
        return standardize.release_levels(blocks, [0, 1, 2], [5, 5, 5], 1.0, rng)

    halved = Broken("noise halved", _halved)
    yield target("standardize.release_levels", levels, halved)
    yield target(
        "standardize.release_count", lambda rows, rng: standardize.release_count(rows, 1.0, rng), halved
    )
    yield Target("standardize.standardize", _ADDED, _LENGTH, space,
                 stepped(lambda rows, rng: located(_arrays(rows), rng), "mu", math.sqrt(2.0)),
                 halved)  # fmt: skip
    yield target("whiten.release_gram", gram, _unlimited(_kernels, "clipped_gram", 6))
    yield target("scores.product_gradient", product, _unlimited(k, "product_gradient", 4))
    yield target("scores.summed_gradient", residual, _unlimited(k, "product_gradient", 4))
    yield target(
        "scores.psi_moments",
        lambda rows, rng: b.psi_moments(rows, _signs(rng, 2), 1.0, 10.0, 1.0, rng),
        halved,
    )
    yield target("scores.residual_variance",
                 lambda rows, rng: b.residual_variance(rows, _signs(rng, 2), 4.0, 10.0, 1.0, rng),
                 _unlimited(k, "residual_moments", 3))  # fmt: skip
    yield target("scores.outside_score", outside, halved)
    yield target("scores.product_gram", outer, _unlimited(k, "product_gram", 4))
    yield target("scores.inner_gram", inner, _unlimited(k, "inner_gram", 5))
    yield target("scores.product_counts", counts,
                 Broken("a row counts in every cell", ((k, "product_octaves", _everywhere),)))  # fmt: skip
    yield target("scores.residual_scale",
                 lambda rows, rng: b.residual_scale(rows, _signs(rng, 2), 1.0, 10.0, 1.0, rng),
                 Broken("a row counts in every cell", ((k, "residual_octaves", _everywhere),)))  # fmt: skip
    unclipped = Broken("rows of the whitening not clipped", larger(_kernels, "clipped_gram", 6))
    yield Target("prepare.prepare", _ADDED, _LENGTH, space, _prepared(_ADDED), unclipped, 1_000)
    yield Target("prepare.prepare", _REPLACED, _LENGTH, Tables(3, _REPLACED), _prepared(_REPLACED),
                 Broken("budget as for rows added", _as_added), 1_000)  # fmt: skip


TARGETS = (*_sum_targets(), *_exponential_targets(), *_law_targets(), *_tukey_targets())
