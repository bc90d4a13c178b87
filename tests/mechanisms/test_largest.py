import math

import numpy as np
import pytest

from dpstats.mechanisms import _kernels, largest, noise
from dpstats.mechanisms.largest import release_largest_visible
from dpstats.mechanisms.rng import Randomness

pytestmark = pytest.mark.filterwarnings("error")
SILENT = 1e8


def histogram(values):
    hist = np.zeros(_kernels.OCTAVES, np.int64)
    for value in values:
        hist[_kernels.octave(np.square(np.float64(value)).view(np.int64))] += 1
    return hist


@pytest.mark.parametrize("scale", [1e-12, 1.0, 3e7])
def test_without_noise_the_top_half_octave_is_found(scale):
    values = scale * np.abs(np.random.default_rng(1).standard_normal(500))
    top = release_largest_visible(histogram(values), SILENT, Randomness(0))
    # up to one and a half cells higher, where a wider window that begins in the top cell stands out as well
    assert values.max() / 1.5 < top <= values.max() * 2**0.75


def test_a_cell_with_few_rows_is_not_seen_and_one_with_many_is():
    bulk, few, many = np.ones(1000), np.full(2, 64.0), np.full(100, 64.0)
    assert release_largest_visible(histogram([*bulk, *few]), 1.0, Randomness(2)) < 4
    assert release_largest_visible(histogram([*bulk, *many]), 1.0, Randomness(2)) >= 32


def test_nothing_visible_gives_zero_and_false_alarms_are_rare():
    empty = np.zeros(_kernels.OCTAVES, np.int64)
    found = sum(release_largest_visible(empty, 0.3, Randomness(seed)) > 0 for seed in range(400))
    # at most 1e-3 a histogram: seven of 400 have a probability below 1e-6
    assert found < 7


@pytest.mark.parametrize("n", [0, 1])
def test_extremes_stay_on_the_public_scale(n):
    for value in (0.0, 1e-200, 1e308):
        top = release_largest_visible(histogram([min(value, 1e150)] * (n * 1000)), 1.0, Randomness(3))
        assert 0 <= top <= 2.0 ** ((_kernels.EXPONENT + 1) / 2)
        assert (top > 0) == (n > 0)


def test_one_histogram_is_released_with_sensitivity_one(monkeypatch):
    calls, real = [], noise._add
    monkeypatch.setattr(noise, "_add", lambda v, *a: calls.append((np.size(v), *a[:3])) or real(v, *a))
    release_largest_visible(histogram([1.0]), 0.37, Randomness(0))
    assert calls == [(_kernels.OCTAVES, "gaussian", 1.0, 0.37)]
    generator = np.random.default_rng(4)
    values = generator.choice([0.0, 1e-300, 1.0, 1e150, 3.0], 20)
    added = histogram([*values, 1e150]) - histogram(values)
    replaced = histogram([*values[1:], 7.0]) - histogram(values)
    assert np.linalg.norm(added) == 1
    assert np.linalg.norm(replaced) <= math.sqrt(2)
    assert largest.FALSE_ALARM == 1e-3
