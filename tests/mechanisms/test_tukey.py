"""The restricted exponential mechanism against definitions: depths by counting, divergences cell by cell."""

import dataclasses
import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from dpstats.mechanisms import tukey
from dpstats.mechanisms.ptr import threshold
from dpstats.mechanisms.rng import Randomness

ALARM = 1e-6
KINDS = ("normal", "tied", "heavy", "clustered", "one-sided")


def depth(models, points):
    """Approximate Tukey depth by definition: the least count on either side over the axes."""
    low = (models[None, :, :] <= points[:, None, :]).sum(axis=1)
    high = (models[None, :, :] >= points[:, None, :]).sum(axis=1)
    return np.minimum(low, high).min(axis=1)


def cells(*data):
    """Midpoints and volumes of the boxes into which the coordinates of all `data` cut the bounded space."""
    joined = np.concatenate(data)
    axes = []
    for column in joined.T:
        edges = np.unique(column)
        axes.append((0.5 * (edges[1:] + edges[:-1]), np.diff(edges)))
    middles = np.array(list(itertools.product(*(a[0] for a in axes)))).reshape(-1, joined.shape[1])
    volumes = np.array([math.prod(v) for v in itertools.product(*(a[1] for a in axes))])
    return middles, volumes


def law(models, t, rate, middles, volumes):
    """Probability of each cell: density proportional to ``exp(rate depth)`` on depth at least `t`."""
    u = depth(models, middles)
    weights = np.where(u >= t, np.exp(rate * (u - u.max())) * volumes, 0.0)
    return weights / weights.sum() if weights.sum() else None


def hockey_stick(p, q, eps):
    return float(np.maximum(p - math.exp(eps) * q, 0.0).sum())


def divergence(models, other, t, rate, eps):
    """The larger of the two hockey-stick divergences, or None where there is nothing to draw from."""
    middles, volumes = cells(models, other)
    p, q = (law(data, t, rate, middles, volumes) for data in (models, other))
    return None if p is None or q is None else max(hockey_stick(p, q, eps), hockey_stick(q, p, eps))


def f(models, t, k, eps, rate):
    """``f_k`` by summing over cells: the definition, with nothing in logs."""
    h = len(models) // 2
    if t - 1 - k < 1 or t + 1 + k > h:
        return math.inf
    middles, volumes = cells(models)
    u = depth(models, middles)
    above = sum(volumes[u == i].sum() * math.exp(rate * min(t, i + k)) for i in range(t - 1 - k, t + k + 1))
    below = sum(volumes[u == i].sum() * math.exp(rate * (i - k)) for i in range(t + 1 + k, h + 1))
    return math.exp(eps) * above / below if below else math.inf


@pytest.fixture
def quick_sums(monkeypatch):
    """`logsumexp` of real vectors to the last bit, without what scipy does for other arrays: most of the
    time."""

    def quick(a):
        top = a.max()
        if top == -math.inf:
            return top
        at = a == top
        rest, times = np.exp(np.where(at, -np.inf, a) - top).sum(), at.sum()
        return np.log1p(rest / times) + np.log(times) + top

    generator, alike = np.random.default_rng(0), True
    for n in range(1, 60):
        for a in (generator.normal(size=n), 50 * generator.integers(-3, 3, n), -np.full(n, np.inf)):
            a = np.where(generator.random(n) < 0.2, -np.inf, a)
            alike &= bool(quick(a) == logsumexp(a))
    # (another version of scipy may round otherwise: then its own sums are taken)
    if alike:
        monkeypatch.setattr(tukey, "logsumexp", quick)


def draw_models(generator, m, k, kind):
    if kind == "normal":
        return generator.standard_normal((m, k))
    if kind == "tied":
        return generator.integers(0, 6, (m, k)).astype(float)
    if kind == "heavy":
        return generator.standard_cauchy((m, k)) ** 3
    if kind == "clustered":
        return generator.choice([-1e6, 0.0, 1.0], (m, k)) + generator.standard_normal((m, k))
    return np.exp(generator.standard_normal((m, k)) * 3)


def neighbour(generator, models):
    """One model replaced: by noise, a far point, the centre, another model, or a point of its own
    coordinates."""
    other = models.copy()
    i, j = generator.integers(0, len(models), 2)
    k = models.shape[1]
    other[i] = (
        generator.standard_normal(k) * generator.choice([1e-3, 1, 1e3]),
        generator.choice([-1e9, 1e9], k),
        np.median(models, axis=0),
        models[j],
        models[generator.integers(0, len(models), k), np.arange(k)],
        models.min(axis=0) - generator.random(k),
    )[generator.integers(0, 6)]
    return other


def cases(count, k, sizes, seed):
    generator = np.random.default_rng(seed)
    for n in range(count):
        m = int(generator.integers(*sizes))
        models = draw_models(generator, m, k, KINDS[n % len(KINDS)])
        t = int(generator.integers(2, max(3, m // 2 - 1)))
        yield models, neighbour(generator, models), t, float(generator.choice([0.2, 1.0, 3.0]))


def one_sided(m=40):
    """Wide gaps left of the median and narrow ones right of it, and the neighbour that swaps an end."""
    models = np.concatenate([-np.arange(m / 2), 0.01 * np.arange(1, m / 2 + 1)])[:, None]
    other = models.copy()
    other[np.argmin(models)] = 1.0
    return models, other


@pytest.mark.slow
@pytest.mark.parametrize(("k", "count", "sizes"), [(1, 1500, (6, 26)), (2, 400, (6, 16))])
def test_divergence_of_neighbours_never_exceeds_the_unsafety(k, count, sizes):
    bounded, tightest = 0, 0.0
    for models, other, t, eps in cases(count, k, sizes, seed=k):
        bound = math.exp(tukey.unsafety(tukey.Boxes.of(models), t, 0, eps))
        found = divergence(models, other, t, eps / 2, eps)
        if not math.isfinite(bound):
            continue
        assert found is not None
        assert found <= bound * (1 + 1e-9) + 1e-14
        bounded += 1
        if bound > 1e-9:
            tightest = max(tightest, found / bound)
    assert bounded > count / 4
    # not vacuous: some neighbours come near the bound
    assert tightest > (0.8 if k == 1 else 0.3)


def test_divergence_check_catches_the_exponent_without_its_two():
    """The published mechanism: density ``exp(eps u)``, which a substitution moves by up to ``exp(2 eps)``."""
    models, other = one_sided()
    t, eps = 5, 1.0
    published_bound = f(models, t, 0, eps, rate=eps)
    assert divergence(models, other, t, eps, eps) > 100 * published_bound
    assert divergence(models, other, t, eps / 2, eps) <= f(models, t, 0, eps, rate=eps / 2)
    caught = 0
    for models, other, t, eps in cases(300, 1, (16, 30), seed=3):
        found, bound = divergence(models, other, t, eps, eps), f(models, t, 0, eps, rate=eps)
        caught += math.isfinite(bound) and found > bound * (1 + 1e-9)
    assert caught > 3


@pytest.mark.slow
def test_divergence_check_catches_a_forgotten_boundary_layer():
    """Without the layer below the restriction in its numerator the bound would be exceeded."""
    caught = 0
    for models, other, t, eps in cases(600, 1, (8, 30), seed=4):
        boxes = tukey.Boxes.of(models)
        bound = tukey.unsafety(boxes, t, 0, eps)
        if math.isfinite(bound):
            depths = np.arange(1, len(boxes.log_layer) + 1)
            layers = boxes.log_layer + eps / 2 * depths
            short = math.exp(eps + layers[t - 1] - logsumexp(layers[t:]))
            caught += divergence(models, other, t, eps / 2, eps) > short * (1 + 1e-9)
    assert caught > 10


@pytest.mark.parametrize("m", [8, 9, 12, 15])
@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_layers_and_unsafety_are_those_counted_cell_by_cell(m, k, kind):
    models = draw_models(np.random.default_rng(m * k), m, k, kind)
    boxes = tukey.Boxes.of(models)
    middles, volumes = cells(models)
    u = depth(models, middles)
    h = m // 2
    layers = [volumes[u == i].sum() for i in range(1, h + 1)]
    boxed = np.array([volumes[u >= i].sum() for i in range(1, h + 1)])
    np.testing.assert_allclose(np.exp(boxes.log_volume), boxed, rtol=1e-12)
    # a thin layer is the difference of two large volumes
    assert (abs(np.exp(boxes.log_layer) - layers) <= 1e-13 * boxed).all()
    assert u.max() <= h
    for eps in (0.3, 2.0):
        for t, distance in itertools.product(range(1, h + 1), range(4)):
            want = f(models, t, distance, eps, eps / 2)
            got = tukey.unsafety(boxes, t, distance, eps)
            assert math.exp(got) == pytest.approx(want, rel=1e-7), (t, distance)


@pytest.mark.slow
@pytest.mark.usefixtures("quick_sums")
def test_margin_is_the_largest_distance_by_brute_force():
    seen = set()
    for models, _, _, _ in cases(40, 1, (20, 61), seed=5):
        for t in (len(models) // 6, len(models) // 4):
            for eps, delta in ((1.0, 0.1), (4.0, 1e-4)):
                want = -1
                for distance in range(t + 1):
                    if f(models, t, distance, eps, eps / 2) <= delta:
                        want = distance
                assert tukey.margin(tukey.Boxes.of(models), t, eps, delta) == want
                seen.add(want)
    assert len(seen) > 4


def exact_log_f(S, t, distance, eps):
    """``ln f_k`` of sorted models to 50 digits: volumes are fractions, and only the exponentials are
    rounded."""
    m, k = S.shape
    h = m // 2
    sides = [[Fraction(S[m - 1 - i, j]) - Fraction(S[i, j]) for j in range(k)] for i in range(h)]
    volumes = [*(math.prod(row, start=Fraction(1)) for row in sides), Fraction(0)]
    layers = [a - b for a, b in itertools.pairwise(volumes)]

    def weighed(depths, exponent):
        return sum(decimal(layers[i - 1]) * (decimal(Fraction(eps)) / 2 * exponent(i)).exp() for i in depths)

    above = weighed(range(t - 1 - distance, t + distance + 1), lambda i: min(t, i + distance))
    below = weighed(range(t + 1 + distance, h + 1), lambda i: i - distance)
    if below == 0:
        return Decimal("Infinity")
    return Decimal("-Infinity") if above == 0 else decimal(Fraction(eps)) + above.ln() - below.ln()


def decimal(x):
    return Decimal(x.numerator) / Decimal(x.denominator)


def borderline(seed):
    """Models of all sorts, many nearly tied or far from zero, with a depth, a distance, eps and the exact
    ``ln f``."""
    generator = np.random.default_rng(seed)
    for n in range(250):
        m, k = int(generator.integers(12, 40)), 1 + n % 4
        models = draw_models(generator, m, k, KINDS[n % len(KINDS)])
        models = models * generator.choice([1.0, 1e-100, 1e60], k) ** generator.integers(0, 2)
        models = models + generator.choice([0.0, 1e3, 1e9], k) * np.abs(models).max(axis=0)
        boxes = tukey.Boxes.of(tukey.jitter(models, Randomness(n)))
        t = int(generator.integers(2, m // 2))
        distance = int(generator.integers(0, max(1, min(t - 1, m // 2 - t))))
        eps = float(generator.choice([0.1, 1.0, 4.0]))
        exact = exact_log_f(boxes.S, t, distance, eps)
        if exact.is_finite():
            yield boxes, t, distance, eps, exact


def laxer(margin, seed):
    """How often a margin reaches a distance at a `delta` near ``f`` that ``f`` exceeds."""
    found = 0
    for boxes, t, distance, eps, exact in borderline(seed):
        if not -700 < exact < 0:
            continue
        delta = float(exact.exp())
        near = (math.nextafter(delta, 0), delta, math.exp(tukey.unsafety(boxes, t, distance, eps)))
        for at in near:
            if 0 < at < 1 and exact > Decimal(at).ln():
                found += margin(boxes, t, eps, at) >= distance
    return found


@pytest.mark.slow
def test_rounding_is_within_its_bound():
    with localcontext(prec=60):
        cases, worst = 0, 0.0
        for boxes, t, distance, eps, exact in borderline(13):
            error = abs(Decimal(tukey.unsafety(boxes, t, distance, eps)) - exact)
            worst = max(worst, float(error) / tukey.rounding(*boxes.S.shape, eps))
            cases += 1
        assert cases > 150
        assert worst < 1
    assert tukey.rounding(2000, 10, 1.0) < 1e-10


@pytest.mark.slow
def test_rounding_check_catches_layers_from_differences_of_volumes():
    with localcontext(prec=60):
        caught = 0
        for boxes, t, distance, eps, exact in borderline(13):
            careless = dataclasses.replace(boxes, log_layer=tukey._logs(boxes.log_volume)[1])
            error = abs(Decimal(tukey.unsafety(careless, t, distance, eps)) - exact)
            caught += error > tukey.rounding(*boxes.S.shape, eps)
        assert caught > 5


@pytest.mark.slow
def test_the_margin_is_never_laxer_than_exact_arithmetic(monkeypatch):
    with localcontext(prec=60):
        assert laxer(tukey.margin, 14) == 0
        # test of the test: without the allowance for rounding it is
        monkeypatch.setattr(tukey, "rounding", lambda m, k, eps: 0.0)
        assert laxer(tukey.margin, 14) > 10


def walk(count, seed):
    """Chains of neighbours: the models of one step differ from those before in one model."""
    generator = np.random.default_rng(seed)
    for chain in range(count // 200):
        m, k = int(generator.integers(12, 70)), 1 + chain % 3
        models = draw_models(generator, m, k, KINDS[chain % len(KINDS)])
        t = max(2, int(m * generator.choice([0.15, 0.25])))
        eps, delta = float(generator.choice([1.0, 3.0, 8.0])), float(generator.choice([1e-6, 0.01, 0.5]))
        previous = models
        for _ in range(200):
            models = neighbour(generator, models)
            yield previous, models, t, eps, delta
            previous = models


@pytest.mark.slow
@pytest.mark.usefixtures("quick_sums")
def test_ten_thousand_neighbours_move_the_margin_by_at_most_one():
    seen, before, moved = set(), None, 0
    for previous, models, t, eps, delta in walk(10_000, seed=6):
        if before is None or before[0] is not previous:
            before = previous, tukey.margin(tukey.Boxes.of(previous), t, eps, delta)
        after = tukey.margin(tukey.Boxes.of(models), t, eps, delta)
        assert abs(after - before[1]) <= 1
        moved += after != before[1]
        seen.add(after)
        before = models, after
    assert len(seen) > 6
    assert moved > 300


@pytest.mark.slow
@pytest.mark.usefixtures("quick_sums")
def test_neighbour_check_catches_a_margin_that_does_not_widen_with_distance():
    """The distance as the logarithm of the unsafety at hand: one model can move it by many units."""

    def hasty(models, t, eps, delta):
        lost = tukey.unsafety(tukey.Boxes.of(models), t, 0, eps)
        return math.floor(min(math.log(delta) - lost, 1e3) / eps) if lost < math.inf else -1

    steps = (
        abs(hasty(models, t, eps, delta) - hasty(previous, t, eps, delta))
        for previous, models, t, eps, delta in walk(2_000, seed=6)
    )
    assert max(steps) > 1


def expected_counts(boxes, t, eps, draws):
    weights = boxes.log_layer + eps / 2 * np.arange(1, len(boxes.log_layer) + 1)
    weights[: t - 1] = -np.inf
    return draws * np.exp(weights - logsumexp(weights))


def pooled_chi_square(counts, expected):
    """p-value of the chi-square test, the cells that expect fewer than 10 joined to the last that does
    not."""
    common = expected >= 10
    observed, wanted = counts[common].astype(float), expected[common].copy()
    observed[-1] += counts[~common].sum()
    wanted[-1] += expected[~common].sum()
    return stats.chisquare(observed, wanted * observed.sum() / wanted.sum()).pvalue


@pytest.mark.slow
@pytest.mark.parametrize(("k", "m"), [(1, 30), (2, 31), (5, 40)])
def test_depths_of_draws_follow_the_layer_weights(k, m):
    models = np.random.default_rng(k).standard_normal((m, k)) ** 3
    boxes, t, eps, draws = tukey.Boxes.of(models), 4, 0.8, 3000
    rng = Randomness(seed=k)
    points = np.array([tukey.sample(boxes, t, eps, rng) for _ in range(draws)])
    counts = np.bincount(depth(models, points), minlength=m // 2 + 1)[1:]
    expected = expected_counts(boxes, t, eps, draws)
    assert counts[: t - 1].sum() == 0
    assert (expected > 10).sum() > 4
    assert pooled_chi_square(counts, expected) > ALARM
    # test of the test: the weights without their factor 1/2 are told apart
    assert pooled_chi_square(counts, expected_counts(boxes, t, 2 * eps, draws)) < ALARM


def single_layer(boxes, i):
    return dataclasses.replace(
        boxes, log_layer=np.where(np.arange(1, len(boxes.log_layer) + 1) == i, 0.0, -np.inf)
    )


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("layer", [2, 5])
def test_draws_are_uniform_within_a_layer_by_cells(k, layer):
    models = np.random.default_rng(7).standard_normal((11, k)) ** 3
    boxes, draws = tukey.Boxes.of(models), 3000
    rng = Randomness(seed=8)
    points = np.array([tukey.sample(single_layer(boxes, layer), 1, 1.0, rng) for _ in range(draws)])
    assert (depth(models, points) == layer).all()
    # halve every gap, so that the position inside a cell is looked at as well
    edges = [np.unique(np.concatenate([c := np.sort(column), 0.5 * (c[1:] + c[:-1])])) for column in models.T]
    fine = np.array(
        list(itertools.product(*([*e, *[e[-1]] * (max(map(len, edges)) - len(e))] for e in edges)))
    )
    middles, volumes = cells(fine)
    volumes = np.where(depth(models, middles) == layer, volumes, 0.0)
    index = [np.searchsorted(e, column) - 1 for e, column in zip(edges, points.T, strict=True)]
    counts = np.bincount(np.ravel_multi_index(index, [len(e) - 1 for e in edges]), minlength=len(volumes))
    assert counts[volumes == 0].sum() == 0
    inside = volumes > 0
    assert pooled_chi_square(counts[inside], draws * volumes[inside] / volumes.sum()) > ALARM


@pytest.mark.slow
def test_draws_are_uniform_within_a_layer_in_five_dimensions():
    """Against uniform points of the outer box that happen to lie in the layer (rejection sampling)."""
    generator = np.random.default_rng(9)
    models = generator.standard_normal((15, 5)) ** 3
    boxes, layer = tukey.Boxes.of(models), 3
    rng = Randomness(seed=10)
    points = np.array([tukey.sample(single_layer(boxes, layer), 1, 1.0, rng) for _ in range(2500)])
    low, high = boxes.S[layer - 1], boxes.S[len(models) - layer]
    candidates = low + generator.random((60_000, 5)) * (high - low)
    reference = candidates[depth(models, candidates) == layer]
    scaled, wanted = (points - low) / (high - low), (reference - low) / (high - low)
    projections = [*np.eye(5), np.ones(5), [1, -1, 0, 0, 0], [0, 0, 0, 1, 1]]
    for direction in projections:
        assert stats.ks_2samp(scaled @ direction, wanted @ direction).pvalue > ALARM / len(projections)
    for j in range(5):
        # test of the test: without the shell on axis j the law differs visibly
        inner = wanted[np.abs(wanted[:, j] - 0.5) < 0.25]
        assert stats.ks_2samp(scaled[:, j], inner[:, j]).pvalue < ALARM


@pytest.mark.parametrize("m", [20, 21])
@pytest.mark.parametrize("k", [1, 4])
def test_large_eps_converges_to_the_coordinatewise_median(m, k):
    models = np.random.default_rng(m).standard_cauchy((m, k))
    boxes = tukey.Boxes.of(models)
    low, high = boxes.S[m // 2 - 1], boxes.S[m - m // 2]
    for seed in range(20):
        point = tukey.sample(boxes, 3, 1e5, Randomness(seed))
        assert (point >= low - 1e-8 * abs(low)).all()
        assert (point <= high + 1e-8 * abs(high)).all()
    assert ((low <= np.median(models, axis=0)) & (np.median(models, axis=0) <= high)).all()


def test_draws_are_on_the_public_lattice_and_come_from_exact_arithmetic():
    models = np.random.default_rng(11).standard_normal((20, 3)) * [1.0, 1e-200, 1e200]
    rng = Randomness(seed=12)
    for _ in range(50):
        bits = tukey.sample(tukey.Boxes.of(models), 3, 1.0, rng).view(np.int64)
        assert (bits & ((1 << 22) - 1) == 0).all()
    # a point near zero between far ends keeps 30 significant bits: a product of doubles would have fewer
    ends = [(-1.0, 1.0)]
    share = (1 + tukey.Fraction(1, 2**60) + tukey.Fraction(1, 2**85)) / 2
    assert tukey._point(ends, share) == pytest.approx(2.0**-60 * (1 + 2.0**-25), rel=2.0**-30)
    assert tukey._point([(0.0, 1.0), (3.0, 6.0)], tukey.Fraction(1, 4)) == 1.0
    assert tukey._point([(0.0, 1.0), (3.0, 6.0)], tukey.Fraction(1, 2)) == 4.0
    assert tukey._point([(2.0, 2.0)], tukey.Fraction(1, 2)) == 2.0


@pytest.mark.filterwarnings("error")
def test_models_that_all_agree_are_never_safe_and_never_crash():
    for value in (0.0, 5.0, 1e308):
        boxes = tukey.Boxes.of(np.full((20, 3), value))
        assert tukey.unsafety(boxes, 5, 0, 1.0) == math.inf
        assert tukey.margin(boxes, 5, 1.0, 1e-6) == -1
        assert np.isfinite(tukey.sample(boxes, 5, 1.0, Randomness(0))).all()
    boxes = tukey.Boxes.of(tukey.jitter(np.full((400, 2), 5.0), Randomness(1)))
    assert tukey.margin(boxes, 60, 1.0, 1e-6) > 0
    np.testing.assert_allclose(tukey.sample(boxes, 60, 1.0, Randomness(2)), 5.0, rtol=1e-9)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("m", [2, 3, 4, 8])
def test_few_models_and_flat_axes_are_refused_without_a_warning(m):
    models = np.random.default_rng(m).standard_normal((m, 2))
    assert tukey.margin(tukey.Boxes.of(models), 1, 1.0, 0.1) == -1
    models[:, 1] = 3.0
    boxes = tukey.Boxes.of(models)
    assert tukey.margin(boxes, 2, 1.0, 0.1) == -1
    assert np.isfinite(tukey.sample(boxes, 1, 1.0, Randomness(0))).all()


@pytest.mark.filterwarnings("error")
def test_infinite_boxes_do_not_open_the_test():
    """Sides that overflow once made every outer layer look empty, hence any data safe."""
    ramp = np.arange(1, 21) / 20
    models = np.concatenate([-ramp, ramp])[:, None]
    want = tukey.unsafety(tukey.Boxes.of(models), 6, 0, 1.0)
    assert want > math.log(1e-3)
    for scale in (2.0**-450, 2.0**499, 2.0**500):
        assert tukey.unsafety(tukey.Boxes.of(models * scale), 6, 0, 1.0) == pytest.approx(want, rel=1e-9)
    # what is below the lattice agrees, and is never safe
    assert tukey.unsafety(tukey.Boxes.of(models * 2.0**-502), 6, 0, 1.0) == math.inf
    inside = tukey.Boxes.of(np.clip(models * 1.7e308, -(2.0**500), 2.0**500))
    for beyond in (
        models * 1.7e308,
        np.where(abs(models) > 0.9, np.copysign(np.inf, models), models * 1.7e308),
    ):
        boxes = tukey.Boxes.of(beyond)
        np.testing.assert_array_equal(boxes.S, inside.S)
        assert not np.isnan(boxes.log_layer).any()
        assert np.isfinite(tukey.sample(boxes, 6, 1.0, Randomness(1))).all()


def test_jitter_is_public_and_touches_every_entry():
    models = np.array([[0.0, 1.0, -1e6, 1e300]]).repeat(2000, axis=0)
    moved = tukey.jitter(models, Randomness(1))
    change = moved - models
    bound = 2.0**-40 * abs(models) + 2.0**-200
    assert (abs(change) <= bound * (1 + 1e-3)).all()
    assert all(len(np.unique(column)) > 1000 for column in moved.T)
    assert stats.kstest(change[:, 0] / 2.0**-200, stats.uniform(-1, 2).cdf).pvalue > ALARM
    assert stats.kstest(change[:, 2] / (2.0**-40 * 1e6), stats.uniform(-1, 2).cdf).pvalue > ALARM
    # the same whatever the other models are: no spread, no ties enter
    other = models.copy()
    other[1:] = 7.0
    np.testing.assert_array_equal(tukey.jitter(other, Randomness(1))[0], moved[0])


def test_gaussian_margin_is_the_margin_of_normal_quantiles():
    for m, k, eps, delta in ((400, 1, 0.5, 1e-6), (701, 4, 0.6, 1e-7), (2000, 12, 0.5, 1e-6)):
        t = int(0.15 * m)
        S = stats.norm.ppf((np.arange(1, m + 1) - 0.5) / m)[:, None].repeat(k, axis=1)
        want = tukey.margin(tukey.Boxes.of(S), t, eps, delta)
        assert tukey.gaussian_margin(m, k, t, eps, delta) == want
        generator = np.random.default_rng(m)
        drawn = [
            tukey.margin(tukey.Boxes.of(generator.standard_normal((m, k))), t, eps, delta) for _ in range(10)
        ]
        assert np.median(drawn) == pytest.approx(want, abs=6 + 0.1 * abs(want))


def test_gaussian_margin_grows_with_models_budget_and_delta_and_falls_with_axes():
    def margins(**changes):
        base = dict(m=1000, k=5, t=150, eps=0.5, delta=1e-6)
        ((name, values),) = changes.items()
        return [tukey.gaussian_margin(**base | {name: value}) for value in values]

    assert margins(eps=[0.2, 0.5, 1.0, 2.0]) == sorted(margins(eps=[0.2, 0.5, 1.0, 2.0]))
    assert margins(delta=[1e-12, 1e-9, 1e-6, 1e-3]) == sorted(margins(delta=[1e-12, 1e-9, 1e-6, 1e-3]))
    axes = margins(k=[1, 2, 5, 10, 30])
    assert axes == sorted(axes, reverse=True)
    sizes = [tukey.gaussian_margin(m, 5, int(0.15 * m), 0.5, 1e-6) for m in (200, 500, 1000, 3000)]
    assert sizes == sorted(sizes)
    assert sizes[-1] > sizes[0]


def test_least_models_pass_with_room_and_grow_with_axes():
    """More columns never need fewer models: a fit that starts with enough rows is not refused later."""
    previous = 0
    for k in (1, 2, 3, 6, 12, 25):
        m = tukey.least_models(k, 0.3, 0.5, 1e-6, 0.15)
        wanted = threshold(0.3, 1e-6) + 6 / 0.3
        assert tukey.gaussian_margin(m, k, int(0.15 * m), 0.5, 1e-6) >= wanted
        smaller = int(m / 1.2)
        assert tukey.gaussian_margin(smaller, k, int(0.15 * smaller), 0.5, 1e-6) < wanted
        assert m >= previous
        previous = m


def test_tiny_budgets_ask_for_more_models_than_there_are_without_looking_for_them():
    previous = tukey.least_models(4, 1e-3, 1e-3, 1e-6, 0.15)
    for eps in (1e-6, 1e-9, 1e-12):
        m = tukey.least_models(4, eps, eps, 1e-6, 0.15)
        assert m > 100 * previous
        assert int(0.15 * m) >= threshold(eps, 1e-6)
        previous = m
