"""Private location and scale: sensitivities on neighbours, accounting, and survival of hostile columns."""

import math
from dataclasses import replace

import numpy as np
import pytest

from dpstats.engines.local import Rows
from dpstats.mechanisms import _kernels, noise, standardize
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.standardize import BISECTIONS, Columns, release_count, release_levels

SILENT = 1e9
"""A budget so large that the noise is a few millionths."""

pytestmark = pytest.mark.filterwarnings("error")


def source(x):
    x = np.ascontiguousarray(np.atleast_2d(np.asarray(x, float).T).T)
    return Rows(x, np.zeros(len(x)))


def run(x, mu_loc=SILENT, mu_scale=SILENT, seed=0, count=None):
    """Standardise all columns of `x` together."""
    blocks = source(x)
    group = Columns(0, np.arange(blocks.X.shape[1]), mu_loc, mu_scale)
    (result,) = standardize.standardize(
        [(blocks.X, blocks.Y)], [group], count or len(blocks.X), Randomness(seed)
    )
    return result


def keys(x):
    """The lattice key of every value, by the kernel's rules."""
    low, high = (int(np.float64(v).view(np.int64)) for v in (2.0**-100, 2.0**101))
    magnitude = np.abs(np.asarray(x, float)).view(np.int64)
    steps = np.where(magnitude >= low, np.minimum(magnitude, high) - low + 1, 0)
    return 2**60 + np.where(np.signbit(x), -steps, steps)


def plain_bisection(x):
    """The interval of 2^22 keys that 39 exact comparisons of ``#{key < t}`` with n/2 lead to."""
    k, lower, size = keys(x), 0, 2**61
    for _ in range(BISECTIONS):
        size //= 2
        if not (k < lower + size).sum() - len(k) / 2 > 0:
            lower += size
    return lower, size


def hostile_columns(n, seed):
    generator = np.random.default_rng(seed)
    bits = generator.integers(0, 2**64, n, dtype=np.uint64).view(float)
    return {
        "normal": generator.standard_normal(n),
        "year": 1990.0 + generator.integers(0, 30, n),
        "large": 1e12 * (3 + generator.standard_normal(n)),
        "small": 1e-12 * generator.standard_normal(n),
        "sparse": np.where(generator.random(n) < 0.05, generator.exponential(50, n), 0.0),
        "binary": (generator.random(n) < 0.3).astype(float),
        "counts": generator.poisson(2.0, n).astype(float),
        "cauchy": generator.standard_cauchy(n),
        "lognormal": np.exp(3 * generator.standard_normal(n)),
        "outliers": np.where(generator.random(n) < 0.001, 1e300, generator.standard_normal(n)),
        "constant": np.full(n, 7.25),
        "zero": np.where(generator.random(n) < 0.5, 0.0, -0.0),
        "subnormal": generator.integers(-9, 9, n) * 5e-324,
        "huge": generator.choice([1e308, -1e308], n),
        "bits": np.where(np.isfinite(bits), bits, 0.0),
    }


COLUMNS = hostile_columns(4001, 1)


@pytest.mark.parametrize("name", COLUMNS)
def test_location_without_noise_is_plain_bisection_of_the_sorted_column(name):
    x = COLUMNS[name]
    lower, size = plain_bisection(x)
    result = run(x)
    # the middle order statistic lies in the released interval, whose inner end is the location
    assert lower <= np.sort(keys(x))[len(x) // 2] < lower + size
    ends = standardize.from_key(np.array([lower, lower + size], dtype=np.uint64))
    assert result.loc[0] == ends[np.argmin(abs(ends))]
    assert result.width[0] == ends[1] - ends[0]
    median = np.clip(np.median(x), -(2.0**101), 2.0**101)
    assert abs(result.loc[0] - median) <= max(2.0**-30 * abs(median), 2.0**-100) * (1 + 1e-9)


@pytest.mark.parametrize("name", COLUMNS)
def test_scale_without_noise_is_the_root_mean_square_over_octaves(name):
    x = COLUMNS[name]
    result = run(x)
    far, loc = abs(x - result.loc[0]) > result.width[0], result.loc[0]
    if not far.any():
        assert result.scale[0] == result.reach[0] == 0
        return
    # zeros are as far as the location, which may be the double below a power of two
    distance = np.where(x == 0, abs(loc) * (1 + 2.0**-16), abs(x - loc))[far]
    octave = np.clip(np.frexp(distance)[1] - 1, -98, 100)
    top = 2.0 ** octave.max()
    assert result.reach[0] == 2 * top
    squares = np.where(x[far] == 0, loc**2, (1.47 * 2.0**octave) ** 2)
    assert result.scale[0] == pytest.approx(math.sqrt(np.sum(squares) / len(x)), rel=1e-5)
    if name not in ("outliers", "huge", "bits"):
        # a magnitude is known to its octave
        ratio = result.scale[0] / np.sqrt(np.mean((x - np.median(x)) ** 2))
        assert 1.47 / 2 * 0.99 < ratio < 1.47 * 1.01


def test_hostile_columns_are_standardised_together_at_a_real_budget():
    """Noise included: what varies has a scale of its size, what does not leaves the model."""
    columns = hostile_columns(30_000, 2)
    result = run(np.column_stack(list(columns.values())), mu_loc=1.0, mu_scale=1.0, seed=3)
    for j, (name, x) in enumerate(columns.items()):
        loc, scale, reach = result.loc[j], result.scale[j], result.reach[j]
        assert np.isfinite([loc, scale, reach, result.width[j]]).all(), name
        if name in ("constant", "zero", "subnormal"):
            assert scale == reach == 0, name
            continue
        inner = np.clip(x, -(2.0**101), 2.0**101)
        width = result.width[j]
        assert (inner < loc - width).mean() - 0.05 <= 0.5 <= (inner <= loc + width).mean() + 0.05, name
        spread = abs(inner - np.median(inner))
        assert 0.3 * np.quantile(spread, 0.9 if name != "sparse" else 0.97) < scale <= 2.0**102, name
        assert reach >= min(np.quantile(spread, 0.95), 2.0**101), name
    # one false cell far out would ruin a scale
    assert result.scale[0] == pytest.approx(1.0, rel=0.3)
    assert result.reach[0] <= 16


@pytest.mark.parametrize("power", [-60, -1, 1, 40])
def test_scaling_by_a_power_of_two_scales_the_result_exactly(power):
    x = np.column_stack([COLUMNS[name] for name in ("normal", "year", "sparse", "cauchy", "binary")])
    base, moved = run(x), run(x * 2.0**power)
    for field in ("loc", "width", "reach"):
        want = getattr(base, field) * 2.0**power
        if field == "width":
            want = np.where(base.loc == 0, getattr(moved, field), want)
        np.testing.assert_array_equal(getattr(moved, field), want)
    np.testing.assert_allclose(moved.scale, base.scale * 2.0**power, rtol=1e-5)


def test_an_offset_beyond_the_resolution_is_no_variation():
    """Differences below the width of the released interval count as 0."""
    assert run(1e12 + np.random.default_rng(4).random(5000)).scale[0] == 0
    assert run(1e4 + np.random.default_rng(4).random(5000)).scale[0] == pytest.approx(0.3, rel=0.5)


@pytest.mark.parametrize("centre", [1e6, -1e9])
def test_a_spread_of_one_about_a_large_centre_is_seen(centre):
    x = centre + np.random.default_rng(4).standard_normal(5000)
    result = run(x)
    assert abs(result.loc[0] - np.median(x)) <= 0.5
    assert result.scale[0] == pytest.approx(1.0, rel=0.3)


@pytest.mark.parametrize("signed", [False, True])
def test_only_octaves_that_no_value_can_have_go_without_noise(signed):
    g = np.random.default_rng(5)
    loc = np.concatenate(
        [[0.0, 5e-324, 2.0**-100, 2.0**101], g.lognormal(0, 20, 40), -g.lognormal(0, 20, 40)]
    )
    width = np.where(loc == 0, [0.0], np.abs(loc) * 2.0 ** -g.integers(20, 40, len(loc)))
    width[5:10] = 2.0 ** np.arange(-3, 2)
    near = [loc + s * np.nextafter(width, np.inf) for s in (-1, 1)]
    steps = (loc + s * width * f for s in (-1, 1) for f in (1.0, 1.3, 2.0, 1e9))
    x = np.array([*near, *steps, loc, np.zeros(len(loc))])
    group = Columns(0, np.arange(len(loc)), 1.0, 1.0, signed)
    (hist,) = standardize._count_octaves([(x, np.zeros((len(x), 1)))], [group], [(loc, width)])
    possible = standardize._possible(loc, width, hist)
    assert not np.any(hist[~possible])
    np.testing.assert_array_equal(possible[:, 0], loc != 0)
    # the lowest of the others has values in some columns
    lowest = 1 + np.argmax(possible[:, 1 : _kernels.OCTAVES], axis=1)
    assert np.any(hist[np.arange(len(loc)), lowest]) and np.any(~possible)


def astray(x, loc, mu_scale, seed, monkeypatch):
    """Standardise `x` about a location that noise has left at `loc`."""
    monkeypatch.setattr(
        standardize, "_location", lambda cell, group: (np.array([loc]), np.array([abs(loc) * 2.0**-30]))
    )
    return run(x, mu_scale=mu_scale, seed=seed)


@pytest.mark.parametrize("size", [1.0, 1e-4])
@pytest.mark.parametrize("part", [2.0**-36, -(2.0**-12), 0.3])
def test_zeros_about_a_location_astray_are_no_variation(part, size, monkeypatch):
    """200 ones of 1,000 rows, which are not seen; with three times the budget they are."""
    x = np.repeat([0.0, size], [800, 200])
    hidden = [astray(x, part * size, 1 / 70, seed, monkeypatch).scale[0] for seed in range(20)]
    hidden = np.array([scale for scale in hidden if scale > 0]) / size
    # one of 1,000 histograms has a scale of any other size: false alarm 1e-6 for three of 20
    assert np.sum((hidden < 0.2) | (hidden > 1.0)) <= 2
    seen = astray(x, part * size, 1 / 20, 0, monkeypatch)
    assert seen.scale[0] == pytest.approx(np.sqrt(np.mean((x - part * size) ** 2)), rel=0.6)


def test_most_zeros_count_where_other_values_are_seen(monkeypatch):
    """Three levels in small units, about a location between the first two."""
    x = 5e-4 * np.repeat([0.0, 1.0, 2.0], [600, 200, 200])
    result = astray(x, 2e-4, 1 / 20, 0, monkeypatch)
    assert result.scale[0] == pytest.approx(np.sqrt(np.mean((x - 2e-4) ** 2)), rel=0.5)
    assert result.reach[0] >= 8e-4


@pytest.mark.parametrize("value", [1.0, -7.0])
@pytest.mark.parametrize("off", [2.0**-18, -(2.0**-29)])
def test_a_spike_beside_a_location_astray_is_no_variation(value, off, monkeypatch):
    """800 of 1,000 rows; the others, 0 and 8, are not seen with this noise, but 300 zeros beside ones are."""
    x = np.repeat([value, 0.0, 8.0], [800, 100, 100])
    found = [astray(x, value * (1 + off), 1 / 60, seed, monkeypatch).scale[0] for seed in range(20)]
    found = np.array([scale for scale in found if scale > 0])
    # one of 1,000 histograms has a scale of any other size: false alarm 1e-6 for three of 20
    assert np.sum((found < 0.2) | (found > 9)) <= 2
    if value == 1:
        x = np.repeat([1.0, 0.0], [700, 300])
        seen = [astray(x, 1 + off, 1 / 60, seed, monkeypatch).reach[0] == 2 for seed in range(20)]
        # 300 zeros in two cells of noise, of which 2.5 times that of one is needed: 4 % are not seen
        assert np.sum(seen) >= 13  # false alarm 1e-6


@pytest.mark.parametrize("gap", [3.0, 6.0])
@pytest.mark.parametrize("n", [2500, 20_000])
def test_two_values_with_the_location_between_them_are_variation(gap, n, monkeypatch):
    """All rows share an octave, next to the location."""
    x = 1e6 + gap * (np.arange(n) % 2)
    for part in (0.4, 0.5, 0.6):
        result = astray(x, 1e6 + part * gap, 1 / 15, 0, monkeypatch)
        assert result.scale[0] == pytest.approx(gap / 2, rel=0.6)


def test_variation_of_a_millionth_is_kept():
    """Rows far more than half, in some octaves, next to the location."""
    x = 1e6 + np.random.default_rng(4).standard_normal(2000)
    result = run(x, mu_scale=1 / 50)
    assert result.scale[0] == pytest.approx(1.0, rel=0.5)


@pytest.mark.parametrize("zeros", [0.4, 0.5])
def test_zeros_do_not_hide_values_far_beyond_them(zeros, monkeypatch):
    """Zeros beside a location astray stand out most; incomes, in windows of octaves, stand out less."""
    g = np.random.default_rng(5)
    x = np.where(np.arange(1000) < 1000 * zeros, 0.0, np.exp(10 + 0.8 * g.standard_normal(1000)))
    scales = [astray(x, 0.06, 1 / 40, seed, monkeypatch).scale[0] for seed in range(40)]
    # windows of four octaves are missed once in a hundred: false alarm 1e-6 for seven of 40
    assert np.sum(np.array(scales) < 0.3 * np.sqrt(np.mean(x**2))) <= 6


@pytest.mark.slow
@pytest.mark.parametrize("zeros", [0.1, 0.3, 0.45])
def test_zeros_are_variation_about_other_values(zeros):
    """No other distance is there, and they are less than half."""
    x = np.ones(1000)
    x[: int(1000 * zeros)] = 0.0
    results = [run(x, mu_scale=1 / 45, seed=seed) for seed in range(200)]
    # 100 zeros are 2.2 standard deviations and two thirds are lost; 300 are 6.7, and hardly any: 1e-6
    lost = np.mean([result.scale[0] == 0 for result in results])
    assert lost < (0.85 if zeros < 0.2 else 0.05)
    assert run(np.where(np.arange(1000) < 1000 * zeros, 0.0, 7.0)).scale[0] > 0


@pytest.mark.parametrize("unit", [1.0, 1e-4])
@pytest.mark.slow
def test_zeros_and_other_values_as_far_count_together(unit):
    """Fifteen percent at 0 and at twice the location, with noise of 3.3 % of the rows: often neither is
    seen alone."""
    x = unit * np.repeat([0.0, 10.0, 20.0], [68, 314, 68])
    scales = np.array([run(x, mu_scale=1 / 15, seed=seed).scale[0] for seed in range(200)])
    # 0.7 % of the zeros do not count; false alarm 1e-6 for 11 of 200
    assert np.sum(scales == 0) <= 10
    assert np.median(scales) == pytest.approx(np.std(x), rel=0.4)


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_few_rows_give_finite_results(n):
    for mu in (SILENT, 0.5):
        result = run(np.full((n, 2), 1e308), mu, mu, count=1)
        assert np.isfinite([result.loc, result.width, result.scale, result.reach]).all()


def test_no_columns_and_no_location():
    blocks = source(np.ones((5, 2)))
    assert standardize.standardize(blocks, [Columns(0, np.array([], int), 1.0, 1.0)], 5, Randomness(0)) == []
    result = run(3 + np.random.default_rng(5).standard_normal((4000, 2)), mu_loc=0.0)
    assert result.loc.tolist() == result.width.tolist() == [0, 0]
    assert (result.scale > 2.5).all()


def test_groups_read_their_own_side():
    generator = np.random.default_rng(6)
    X, Y = 5 + generator.standard_normal((3000, 2)), 1e6 + 1e3 * generator.standard_normal(3000)
    groups = [Columns(1, np.array([0]), SILENT, SILENT), Columns(0, np.array([1]), SILENT, SILENT)]
    response, column = standardize.standardize(Rows(X, Y), groups, 3000, Randomness(0))
    assert response.loc[0] == pytest.approx(1e6, rel=1e-3)
    assert column.loc[0] == pytest.approx(5, abs=0.1)


def statistics(x, signed=False):
    """Every number that the noise of one release protects, for all thresholds: counts less n/2, and
    octaves."""
    blocks = source(x)
    group = Columns(0, np.arange(blocks.X.shape[1]), 1.0, 1.0)
    n, (top,) = standardize._count_top(blocks, [group])
    steps = []
    for cell in (2**12, 2**12 + 1600, 0, 2**13 - 1):
        cells = np.full(blocks.X.shape[1], cell, np.uint64)
        (low,) = standardize._count_low(blocks, [group], [cells], 48)
        below = top[:, :cell].sum(axis=1, keepdims=True)
        steps.append(below + np.cumsum(low, axis=1) - n / 2)
    steps.append(np.cumsum(top, axis=1) - n / 2)
    octaves = []
    for at in (0.0, 1.0, -2e-31):
        loc = np.full(blocks.X.shape[1], at), np.full(blocks.X.shape[1], 1e-9 * (abs(at) or 1.0))
        (counts,) = standardize._count_octaves(blocks, [replace(group, signed=signed)], [loc])
        octaves.append(counts.astype(float))
    return n, np.concatenate(steps, axis=1), np.array(octaves)


def hostile_row(generator, columns):
    return generator.choice([0.0, -0.0, 1.0, -3.5, 1e308, -1e308, 5e-324, 1990.0, 2.0**101], columns)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("relation", ["add-remove", "substitution"])
@pytest.mark.slow
def test_no_neighbour_moves_a_statistic_by_more_than_its_sensitivity(relation, signed):
    generator = np.random.default_rng(7)
    q, attained = 3, np.zeros(3)
    for _ in range(60):
        x = np.array([hostile_row(generator, q) for _ in range(int(generator.integers(1, 12)))])
        other = x.copy()
        if relation == "add-remove":
            other = np.vstack([x, hostile_row(generator, q)])
        else:
            other[0] = hostile_row(generator, q)
        a, b = statistics(x, signed), statistics(other, signed)
        # each bisection compares one threshold a column
        step = math.sqrt(np.sum(np.max(abs(a[1] - b[1]), axis=1) ** 2))
        octaves = np.max(np.linalg.norm((a[2] - b[2]).reshape(len(a[2]), -1), axis=1))
        moved = np.array([abs(a[0] - b[0]), step, octaves])
        double, root = (1, 1) if relation == "add-remove" else (2, math.sqrt(2))
        bounds = np.array([1.0, double * math.sqrt(q) / 2, root * math.sqrt(q)])
        assert (moved <= bounds * (1 + 1e-12)).all()
        attained = np.maximum(attained, moved / bounds)
    assert attained[1] == pytest.approx(1) and attained[2] == pytest.approx(1)


def test_the_scale_is_read_off_noisy_counts_alone(monkeypatch):
    """Rows that differ everywhere, zeros and rows at the location among them, and the same noisy counts."""
    release = standardize.gaussian
    g, drawn, seen = np.random.default_rng(12), [], []

    def replay(values, *rest):
        if np.shape(values)[-1] != _kernels.OCTAVES:
            return release(np.zeros_like(values), *rest)
        drawn.append(release(values, *rest))
        return drawn[0].copy()

    monkeypatch.setattr(standardize, "gaussian", replay)
    monkeypatch.setattr(
        standardize, "_location", lambda cell, group: (np.array([1.0, 2e-5]), np.array([1e-9, 1e-14]))
    )
    for share in (0.3, 0.9):
        x = np.where(g.random((500, 2)) < share, 0.0, g.choice([1.0, 3.0, 2e-5], (500, 2)))
        seen.append(run(x, mu_scale=0.1, count=500))
    assert not np.array_equal(*drawn)
    for field in ("scale", "reach", "filled", "rows"):
        np.testing.assert_array_equal(*(getattr(result, field) for result in seen))


def test_sensitivity_check_catches_a_count_that_is_not_centred():
    """Without ``- n/2`` the same statistic moves by 1, and the noise would be half of what is needed."""
    x, other = np.zeros((5, 1)), np.zeros((6, 1))
    uncentred = [data[1] + data[0] / 2 for data in (statistics(x), statistics(other))]
    assert np.max(abs(uncentred[0] - uncentred[1])) > 0.5 * (1 + 1e-12)


def record(monkeypatch):
    """Keep every call for noise: law, sensitivity, budget, number of coordinates."""
    calls, real = [], noise._add

    def add(values, law, sensitivity, budget, rng):
        calls.append((law, sensitivity, budget, np.size(values)))
        return real(values, law, sensitivity, budget, rng)

    monkeypatch.setattr(noise, "_add", add)
    return calls


def test_all_noise_adds_up_to_the_budget(monkeypatch):
    calls = record(monkeypatch)
    blocks = source(np.random.default_rng(8).standard_normal((500, 3)))
    groups = [Columns(0, np.array([0, 2]), 0.3, 0.4), Columns(1, np.array([0]), 0.05, 0.06)]
    release_count(blocks, 0.2, Randomness(0))
    standardize.standardize(blocks, groups, 500.0, Randomness(0))
    assert {law for law, *_ in calls} == {"gaussian"}
    q = {2: math.sqrt(2), 1: 1.0}
    spent = 0.0
    for _, sensitivity, budget, size in calls:
        if size == 1:
            need = 1.0
        elif size % _kernels.OCTAVES == 0:
            need = q[size // _kernels.OCTAVES]
        else:
            # the noise of 13 bisection steps of up to q columns, each moved by 1/2
            assert size % _kernels.GRID_BITS == 0
            need = math.sqrt(_kernels.GRID_BITS) * q[size // _kernels.GRID_BITS] / 2
        spent += (need * budget / sensitivity) ** 2
    assert spent == pytest.approx(0.2**2 + 0.3**2 + 0.4**2 + 0.05**2 + 0.06**2, rel=1e-12)


def test_bisection_noise_has_the_stated_deviation(monkeypatch):
    """39 steps, 13 at once: their noise is that of 39 releases with sensitivity sqrt(q)/2, and the parameters
    of each grid's are its share of mu^2."""
    drawn, real = [], standardize.gaussian
    monkeypatch.setattr(standardize, "gaussian", lambda *a: drawn.append(real(*a)) or drawn[-1])
    x = np.random.default_rng(9).standard_normal((50, 4))
    for seed in range(40):
        run(x, mu_loc=0.7, mu_scale=SILENT, seed=seed)
    steps = np.array([d for d in drawn if d.shape == (_kernels.GRID_BITS, 4)])
    assert len(steps) * _kernels.GRID_BITS == 40 * BISECTIONS
    for grid, share in enumerate((0.55, 0.3, 0.15)):
        sd = math.sqrt(4) / 2 / (0.7 * math.sqrt(share / _kernels.GRID_BITS))
        squares = steps[grid :: _kernels.GRIDS] ** 2
        # false-alarm rate 1e-6 each for the mean square of 2,080 normal draws
        assert np.mean(squares) / sd**2 == pytest.approx(1, abs=5.2 * math.sqrt(2 / squares.size))


def test_count_is_unbiased_with_the_stated_deviation():
    blocks = [(np.zeros((700, 1)), np.zeros((700, 1))), (np.zeros((300, 1)), np.zeros((300, 1)))]
    draws = np.array([release_count(blocks, 0.5, Randomness(seed)) for seed in range(400)])
    assert draws.mean() == pytest.approx(1000, abs=4.9 * 2 / 20)
    assert draws.std() == pytest.approx(2.0, abs=4.9 * 2 / math.sqrt(800))


def test_false_alarms_are_rare_where_nothing_varies():
    """Constant columns. Where no octave stands out, that from 1 to 2 counts from 2.5 standard deviations:
    0.6 % of the columns. Others together have 1e-3 a histogram."""
    x, runs = np.full((100, 8), 3.0), 40
    found = [run(x, mu_loc=SILENT, mu_scale=0.1, seed=seed) for seed in range(runs)]
    seen = np.array([result.scale > 0 for result in found])
    at_unit = np.array([result.reach == 2.0 for result in found])
    # false alarm 1e-6: at most 12 of 320 columns where 2 are expected, at most 3 of 40 histograms at 1e-3
    assert seen.sum() <= 12
    assert (seen & ~at_unit).any(axis=1).sum() <= 3


def test_a_rare_column_of_zeros_and_ones_is_seen():
    """170 of 20,000 rows, noise of standard deviation 45: beyond 2.5 of it, far below what a search takes."""
    x = np.zeros((20_000, 4))
    x[:170] = 1.0
    seen = [run(x, mu_scale=2 / 45, seed=seed).scale > 0 for seed in range(40)]
    # 90 % are expected; false alarm 1e-6
    assert np.mean(seen) > 0.75


def test_sides_tell_where_the_rows_are():
    x = np.exp(np.random.default_rng(3).standard_normal(5000))
    blocks = source(x)
    (result,) = standardize.standardize(
        blocks, [Columns(0, np.array([0]), SILENT, SILENT, signed=True)], 5000, Randomness(0)
    )
    distance = x - result.loc[0]
    octave = np.frexp(abs(distance))[1] - 1 + _kernels.EXPONENT
    for side, rows in enumerate((distance < 0, distance > 0)):
        want = np.bincount(octave[rows], minlength=_kernels.OCTAVES)
        np.testing.assert_allclose(result.rows[0, side], want, atol=1.5)
    group = Columns(0, np.array([0]), SILENT, SILENT)
    (both,) = standardize.standardize(blocks, [group], 5000, Randomness(0))
    np.testing.assert_allclose(both.rows.sum(axis=1), result.rows.sum(axis=1), atol=1e-3)
    assert both.scale == pytest.approx(result.scale)


def test_levels_are_counted_with_the_stated_noise(monkeypatch):
    calls = record(monkeypatch)
    generator = np.random.default_rng(5)
    codes = np.column_stack([np.zeros(3000), generator.integers(0, 3, 3000), generator.integers(0, 5, 3000)])
    blocks = Rows(np.zeros((3000, 1)), codes)
    released = release_levels(blocks, [1, 2], [3, 5], SILENT, Randomness(0))
    for counts, column, size in zip(released, (1, 2), (3, 5), strict=True):
        want = np.bincount(codes[:, column].astype(int), minlength=size)
        np.testing.assert_allclose(counts, want, atol=1e-3)
    assert calls == [("gaussian", pytest.approx(math.sqrt(2)), SILENT, 8)]


def test_no_neighbour_moves_the_levels_by_more_than_the_sensitivity(monkeypatch):
    """A row is one level of each factor: sqrt(f) if added, sqrt(2 f) if replaced; both attained."""
    monkeypatch.setattr(standardize, "gaussian", lambda counts, *more: counts.astype(float))
    generator = np.random.default_rng(6)
    most = np.zeros(2)
    for _ in range(60):
        codes = generator.integers(0, 4, (int(generator.integers(2, 9)), 3)).astype(float)
        replaced = codes.copy()
        replaced[0] = generator.integers(0, 4, 3)
        counts = [
            np.concatenate(release_levels([(c, c)], [0, 1, 2], [4, 4, 4], 1.0, Randomness(0)))
            for c in (codes, codes[1:], replaced)
        ]
        most = np.maximum(most, [np.linalg.norm(counts[0] - other) for other in counts[1:]])
    assert most == pytest.approx([math.sqrt(3), math.sqrt(6)])


def test_the_noise_of_a_bisection_moves_it():
    """With hardly any budget the first comparison, the sign, is a coin toss: 60 never all agree (2^-59)."""
    signs = {float(np.sign(run(np.full(50, 5.0), mu_loc=1e-9, seed=seed).loc[0])) for seed in range(60)}
    assert signs == {-1.0, 1.0}
    assert run(np.full(50, 5.0)).loc[0] == pytest.approx(5.0, rel=1e-4)
