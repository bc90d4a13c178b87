"""The audited building blocks, each on neighbours that attain its sensitivity."""

import math
from dataclasses import replace

import numpy as np

from audit.harness import DELTA, Broken, Case, calls, transcripts
from dpstats.engines.local import Rows
from dpstats.linear import score_kernels, scores
from dpstats.linear.clip import edges_about
from dpstats.linear.gradients import Gradients
from dpstats.linear.whitened import Frame, Whitened
from dpstats.mechanisms import (
    _kernels,
    exponential,
    noise,
    ptr,
    rounds,
    smooth_sensitivity,
    spread,
    standardize,
    tukey,
    whiten,
)
from dpstats.mechanisms.spread import half_mass_spread, spread_scores
from dpstats.privacy.conversions import gdp_mu

MU = gdp_mu(1.0, DELTA)
_COPIES = 1000
"""Independent copies that one call for noise draws at once."""

# -- additive noise --------------------------------------------------------------------------------------


def louder(factor):
    """Changes that divide all additive noise by a factor."""
    real = noise._add
    return lambda: (
        (
            noise,
            "_add",
            lambda values, law, sensitivity, budget, rng: real(
                values, law, sensitivity, factor * budget, rng
            ),
        ),
    )


def copies(function, first, second, budget, score):
    """A sampler of `function`, of sensitivity 1, on two vectors, many copies a call."""

    def sample(runs, rng):
        out = []
        for values in (first, second):
            parts = [
                score(function(np.tile(values, (_COPIES, 1)), 1.0, budget, rng))
                for _ in range(math.ceil(runs / _COPIES))
            ]
            out.append(np.concatenate(parts)[:runs])
        return tuple(out)

    return sample


def trailing(value):
    """The exponent of the last binary digit of a double: what lattice it lies on."""
    mantissa, exponent = math.frexp(value)
    whole = int(mantissa * 2**53)
    return exponent - 53 + (whole & -whole).bit_length() - 1 if whole else 0


def last_digit(values):
    """Symbols of the lattices near 0, where numbers that were added to 0 are finer than those added to 1."""
    return np.array(
        [float(max(trailing(v), -70)) if 0 < abs(v) < 0.125 else 100.0 + np.sign(v) for v in values.ravel()]
    )


def textbook_laplace(values, law, sensitivity, budget, rng):
    """Laplace noise as in textbooks: the inverse of the distribution function, in doubles, added to the
    value."""
    u = rng.uniform(values.size).reshape(values.shape) - 0.5
    return values - sensitivity / budget * np.sign(u) * np.log1p(-2 * np.abs(u))


def _noise_cases():
    first, second = np.zeros(1), np.ones(1)
    yield Case(
        "noise.laplace", "0 and the sensitivity", copies(noise.laplace, first, second, 1.0, np.ravel),
        Broken("noise halved", louder(2)), runs=200_000, quick=20_000,
    )  # fmt: skip
    a, b = np.zeros(3), np.array([0.5, 0.25, 0.25])
    yield Case(
        "noise.laplace", "vectors at l1 distance 1",
        copies(noise.laplace, a, b, 1.0,
               lambda o: np.abs(o - b).sum(axis=1) - np.abs(o - a).sum(axis=1)),
        Broken("sensitivity of the largest coordinate", louder(2)), runs=100_000,
    )  # fmt: skip
    yield Case(
        "noise.laplace, last digits", "0 and the sensitivity",
        copies(noise.laplace, first, second, 1.0, last_digit),
        Broken("textbook sampler in doubles", ((noise, "_add", textbook_laplace),), runs=40_000),
        runs=200_000, quick=40_000,
    )  # fmt: skip
    yield Case(
        "noise.gaussian", "0 and the sensitivity", copies(noise.gaussian, first, second, MU, np.ravel),
        Broken("noise halved", louder(2)), "gdp", DELTA, runs=200_000, quick=20_000,
    )  # fmt: skip
    yield Case(
        "noise.gaussian", "vectors at l2 distance 1",
        copies(noise.gaussian, np.zeros(4), np.full(4, 0.5), MU, lambda o: o.sum(axis=1)),
        Broken("sensitivity of one coordinate of 4", louder(2)), "gdp", DELTA, runs=50_000,
    )  # fmt: skip
    off = np.array([[0, math.sqrt(0.5)], [math.sqrt(0.5), 0]])

    def shrunk(matrix, sensitivity, mu, rng):
        noisy = real_symmetric(matrix, sensitivity, mu, rng)
        return matrix + (noisy - matrix) / np.where(np.eye(len(matrix)) == 1, 1.0, math.sqrt(2))

    real_symmetric = noise.symmetric_gaussian
    yield Case(
        "noise.symmetric_gaussian", "matrices that differ off the diagonal",
        calls(lambda: (lambda m, rng: noise.symmetric_gaussian(m, 1.0, MU, rng), np.zeros((2, 2)), off),
              lambda m: m[0, 1]),
        Broken("entries off the diagonal stretched twice", ((noise, "symmetric_gaussian", shrunk),)), "gdp",
        DELTA,
    )  # fmt: skip
    yield Case(
        "noise.discrete_laplace", "0 and 1",
        calls(lambda: (lambda v, rng: noise.discrete_laplace(v, 1.0, rng), 0, 1),
              lambda z: min(max(z, -3), 4)),
        Broken("noise halved", _halved_integer), runs=100_000, quick=10_000,
    )  # fmt: skip


def _halved_integer():
    real = noise.discrete_laplace
    return ((noise, "discrete_laplace", lambda value, eps, rng: real(value, 2 * eps, rng)),)


# -- propose, test, release ------------------------------------------------------------------------------


def _ptr_cases():
    real = ptr.threshold

    def unsafe(delta):
        """Two data sets of margin -1, whose release would tell them apart."""

        def run(name, rng):
            return name if ptr.passes(-1, 1.0, delta, rng) else 0.0

        return lambda: (run, 1.0, 2.0)

    yield Case(
        "ptr.passes, unsafe data", "both of margin -1, releases disjoint", calls(unsafe(0.05)),
        Broken("threshold one too low", ((ptr, "threshold", lambda eps, delta: real(eps, delta) - 1),),
               runs=20_000),
        delta=0.05, runs=60_000, quick=10_000,
    )  # fmt: skip
    at = ptr.threshold(1.0, DELTA)

    def louder_test():
        draw = ptr.discrete_laplace
        return ((ptr, "discrete_laplace", lambda value, eps, rng: draw(value, 2 * eps, rng)),)

    yield Case(
        "ptr.passes, the answer", "margins at the threshold and one below",
        calls(lambda: (lambda margin, rng: ptr.passes(margin, 1.0, DELTA, rng), at, at - 1)),
        Broken("noise halved", louder_test), delta=DELTA, runs=60_000,
    )  # fmt: skip


# -- exponential mechanisms ------------------------------------------------------------------------------


def ladder(below, at, above, share=0.05):
    """Rows at both ends of a lattice and between, and the bounds: a wide gap below 1, and one of `share` as
    many above."""
    low, middle = (int(key) for key in exponential.float_keys([1e-3, 1.0]))
    low, high = exponential.keys_to_floats([low, middle + int(share * (middle - low))])
    return np.repeat([low, 1.0, high], [below, at, above]), (float(low), float(high))


def key(value):
    """The order of doubles, as a double."""
    return float(exponential.float_keys(value))


def _quantile_cases():
    def build(q, neighbours, first, second, share=0.05):
        def make():
            rows, bounds = ladder(*first, share)
            others, _ = ladder(*second, share)
            return (
                lambda x, rng: exponential.quantile(x, q, 1.0, rng, neighbours=neighbours, bounds=bounds),
                rows,
                others,
            )

        return make

    real = exponential.log_weights
    twice = (
        (exponential, "log_weights", lambda cells, q, eps, neighbours: real(cells, q, 2 * eps, neighbours)),
    )
    as_added = (
        (exponential, "log_weights", lambda cells, q, eps, neighbours: real(cells, 0.5, eps, "add-remove")),
    )
    yield Case(
        "exponential.quantile", "median; a row added at the upper end",
        calls(build(0.5, "add-remove", (5, 1, 5), (5, 1, 6), 0.1), key),
        Broken("factor 2 dropped", twice), runs=15_000, quick=10_000,
    )  # fmt: skip
    yield Case(
        "exponential.quantile", "first quartile; a row moved from end to end",
        calls(build(0.25, "substitution", (10, 1, 29), (9, 1, 30)), key),
        Broken("sensitivity of the median, rows added", as_added), runs=15_000,
    )  # fmt: skip


def _choice_cases():
    scores = np.array([3.5, 0.0]), np.array([2.0, 1.0])

    def choose(width):
        return lambda: (lambda s, rng: rounds.choose(s, width, 1.0, rng), *scores)

    yield Case(
        "rounds.choose", "scores 3.5, 0 and 2, 1, of a width of 2.5", calls(choose(2.5)),
        Broken("width taken as the largest move", (), calls(choose(1.25)), runs=20_000), runs=100_000,
        quick=20_000,
    )  # fmt: skip

    def cluster(apart):
        """Twenty rows: nine equal, `apart` far from all, the others within 2^10 of the nine."""
        inside = 20 - 9 - apart
        return np.concatenate(
            [np.zeros(9), 2.0**10 * np.linspace(0.6, 1, inside), 1e20 * 3.0 ** np.arange(apart)]
        )

    def moved():
        x = cluster(6)
        y = x.copy()
        y[0] = -1e23
        return lambda rows, rng: half_mass_spread(rows, 1.0, rng), x, y

    def one_sided(x):
        return 2 * spread_scores(x)

    yield Case(
        "spread.half_mass_spread", "a row moved out of a cluster of equal rows", calls(moved, math.log2),
        Broken("factor 2 dropped", ((spread, "spread_scores", one_sided),)), runs=10_000,
    )  # fmt: skip


# -- smooth sensitivity, Tukey boxes ---------------------------------------------------------------------


def _smooth_cases():
    delta = 0.01

    def build():
        parameters = smooth_sensitivity.SmoothNoise.of(1.0, delta, 1)
        shrink = math.exp(-parameters.beta)
        # the other statistic is as far off as both bounds allow
        return (
            lambda data, rng: smooth_sensitivity.release([data[0]], data[1], parameters, rng),
            (0.0, 1.0),
            (shrink, shrink),
        )

    def weaker():
        real = smooth_sensitivity.release
        return (
            (
                smooth_sensitivity,
                "release",
                lambda v, bound, parameters, rng: real(
                    v, bound, replace(parameters, alpha=3 * parameters.alpha), rng
                ),
            ),
        )

    def bare():
        return ((noise, "laplace", lambda values, sensitivity, eps, rng: np.asarray(values)),)

    yield Case(
        "smooth_sensitivity.release", "statistic and bound as far apart as allowed; scale and value together",
        transcripts(build),
        Broken("noise a third", weaker, runs=6_000), delta=delta, runs=20_000,
    )  # fmt: skip
    yield Case(
        "smooth_sensitivity.release, the scale", "statistic and bound as far apart as allowed",
        calls(build, lambda released: released[1]), Broken("scale released without noise", bare, runs=1_000),
        delta=delta, runs=5_000,
        quick=500,
    )  # fmt: skip


def _tukey_cases():
    delta, eps_test, eps_draw, m, t = 1e-3, 0.1, 0.9, 600, 90
    gaps = np.where(np.arange(m) < m // 2, 1.0, 0.06)
    models = np.cumsum(gaps)
    # the lowest fit becomes the highest: depth falls on the left, where the volume is, and rises on the right
    moved = np.append(models[1:], models[-1] + 0.06)

    def build():
        boxes = [tukey.Boxes.of(points[:, None]) for points in (models, moved)]

        def run(data, rng):
            boxes, margin = data
            return (
                float(tukey.sample(boxes, t, eps_draw, rng)[0])
                if ptr.passes(margin, eps_test, delta, rng)
                else math.nan
            )

        return run, *((b, tukey.margin(b, t, eps_draw, delta)) for b in boxes)

    def published():
        real = tukey.sample
        return ((tukey, "sample", lambda boxes, t, eps, rng: real(boxes, t, 2 * eps, rng)),)

    yield Case(
        "tukey.margin and sample", "600 fits on a line; the lowest becomes the highest", calls(build),
        Broken("factor 2 dropped, as published", published), delta=delta, runs=30_000,
    )  # fmt: skip


# -- Gaussian sums over the rows -------------------------------------------------------------------------

NONE = Rows(np.empty((0, 2)), np.empty((0, 1)))
FAR = Rows(np.array([[1e6, -2e6]]), np.array([[3e9]]))
"""No row, and one row beyond every limit."""
_ADDED = "no row, and one beyond every limit"


def _sum_cases():
    """Single Gaussian steps: no row against one far out."""
    zero = np.zeros(2)
    affine = whiten.Affine(np.arange(2), np.zeros(2), np.ones(2))
    plain = Frame(
        whiten.Affine(np.arange(3), np.zeros(3), np.ones(3)),
        np.eye(2),
        np.full(2, -np.inf),
        np.full(2, np.inf),
    )
    narrow = replace(plain, low=np.full(2, -1.0), high=np.ones(2))

    def unclipped(module, name, at):
        """A kernel whose limit, its argument `at`, is a hundred times what it should be."""
        real = getattr(module, name)

        def kernel(*arguments):
            arguments = list(arguments)
            arguments[at] *= 100
            return real(*arguments)

        return Broken("limit skipped", ((module, name, kernel),), runs=2_000)

    def step(name, run, broken, first=NONE, second=FAR, neighbours=_ADDED, **more):
        more = {"runs": 20_000} | more
        return Case(
            name,
            neighbours,
            transcripts(lambda: (run, first, second)),
            broken,
            "gdp",
            DELTA,
            system=False,
            **more,
        )

    b, k = scores, score_kernels
    halved = Broken("noise halved", louder(2), runs=12_000)
    third = Broken("noise a third", louder(3), runs=4_000)
    yield step(
        "standardize.release_count", lambda rows, rng: standardize.release_count(rows, MU, rng), halved
    )
    codes = np.array([[0.0, 1.0, 2.0]])
    yield step("standardize.release_levels",
               lambda rows, rng: standardize.release_levels(rows, [0, 1, 2], [3, 3, 3], MU, rng), halved,
               first=Rows(codes[:0], codes[:0]), second=Rows(codes, codes),
               neighbours="no row, and one with a level of three factors")  # fmt: skip
    yield step("whiten.release_gram",
               lambda rows, rng: whiten.release_gram(rows, affine, np.eye(2), 3.0, MU, rng),
               unclipped(_kernels, "clipped_gram", 6))  # fmt: skip
    yield step("scores.product_gradient",
               lambda rows, rng: b.product_gradient(rows, zero, math.inf, 2.0, MU, rng),
               unclipped(k, "product_gradient", 4), quick=1_000)  # fmt: skip
    shortened = Whitened(FAR, plain, 2.0)
    yield step("scores.summed_gradient",
               lambda rows, rng: b.summed_gradient(Gradients(rows, 2.0), zero, 3.0, MU, rng),
               unclipped(k, "product_gradient", 4), second=Rows(*next(iter(shortened))))  # fmt: skip
    yield step("scores.psi_moments", lambda rows, rng: b.psi_moments(rows, zero, 1.0, 1.0, MU, rng),
               Broken("noise a third", louder(3), runs=5_000),
               second=Rows(np.zeros((1, 2)), np.array([[1 - 1e-12]])),
               neighbours="no row, and one just within the threshold")  # fmt: skip
    yield step("scores.residual_variance",
               lambda rows, rng: b.residual_variance(rows, zero, 4.0, 1.0, MU, rng),
               unclipped(k, "residual_moments", 3))  # fmt: skip
    yield step("scores.outside_score",
               lambda rows, rng: b.outside_score(rows, narrow, plain, np.array([1.0, 0.0]), MU, rng),
               halved, second=Rows(np.array([[1e6, 0.0]]), np.array([[1e6]])),
               neighbours="no row, and one that wide limits fit")  # fmt: skip
    yield step("scores.product_gram",
               lambda rows, rng: b.product_gram(rows, zero, math.inf, 2.0, MU, rng),
               unclipped(k, "product_gram", 4))  # fmt: skip
    yield step("scores.inner_gram",
               lambda rows, rng: b.inner_gram(rows, zero, math.inf, math.inf, 3.0, MU, rng),
               unclipped(k, "inner_gram", 5), second=Rows(np.array([[1e6, -2e6]]), np.zeros((1, 1))),
               neighbours="no row, and one far out with a residual of 0")  # fmt: skip
    yield step("scores.product_counts",
               lambda rows, rng: b.product_counts(rows, zero, math.inf, edges_about(2.0), MU, rng),
               _every_cell(), runs=5_000)  # fmt: skip
    yield step(
        "scores.residual_scale",
        lambda rows, rng: b.residual_scale(rows, zero, 1.0, 10.0, MU, rng),
        third,
        second=Rows(np.zeros((1, 2)), np.ones((1, 1))),
        neighbours="no row, and one of about the first guess",
        runs=8_000,
    )
    yield step("standardize.standardize, location",
               lambda rows, rng: standardize.standardize(rows, _group(MU, 1e-9), 1.0, rng),
               Broken("26 steps, each at the whole budget", louder(math.sqrt(26)), runs=600),
               first=Rows(np.empty((0, 4)), np.empty((0, 1))),
               second=Rows(np.full((1, 4), 7.0), np.zeros((1, 1))), neighbours="no row, and one",
               runs=3_000)  # fmt: skip
    yield step("standardize.standardize, scale",
               lambda rows, rng: standardize.standardize(rows, _group(0.0, MU), 1.0, rng),
               Broken("columns' octaves taken one by one", louder(2), runs=8_000),
               first=Rows(np.empty((0, 4)), np.empty((0, 1))),
               second=Rows(np.full((1, 4), 7.0), np.zeros((1, 1))), neighbours="no row, and one",
               runs=6_000)  # fmt: skip


def _group(mu_loc, mu_scale):
    return [standardize.Columns(0, np.arange(4), mu_loc, mu_scale)]


def _every_cell():
    """A row that is counted in every cell of the histogram."""

    def kernel(V, Y, u, threshold, hist):
        hist += len(V)

    return Broken("a row counts in every cell", ((score_kernels, "product_octaves", kernel),), runs=2_000)


CASES = (
    *_noise_cases(),
    *_ptr_cases(),
    *_quantile_cases(),
    *_choice_cases(),
    *_smooth_cases(),
    *_tukey_cases(),
    *_sum_cases(),
)
