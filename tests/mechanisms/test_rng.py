import math

import numpy as np
import pytest
from scipy import stats

from dpstats.mechanisms.rng import Randomness

ALARM = 1e-6


class Words(Randomness):
    """Given words, over and over."""

    def __init__(self, *words):
        super().__init__()
        self._given = b"".join(int(word).to_bytes(8, "little") for word in words)

    def _bytes(self, size):
        return (self._given * (1 + size // len(self._given)))[:size]


@pytest.fixture(params=["seeded", "system"])
def rng(request):
    return Randomness(seed=1 if request.param == "seeded" else None)


def test_key_decides_the_words_and_each_request_has_its_own():
    one, again, other = (Randomness(key=bytes([k]) * 32) for k in (1, 1, 2))
    first = [one.words(4).tolist() for _ in range(3)]
    assert first == [again.words(4).tolist() for _ in range(3)]
    assert len({word for words in [*first, other.words(4).tolist()] for word in words}) == 16
    assert not one.seeded
    # a uniform law, and a seed comes first
    assert stats.kstest(Randomness(key=b"k" * 32).uniform(20_000), "uniform").pvalue > ALARM
    assert Randomness(3, key=b"k" * 32).words(2).tolist() == Randomness(3).words(2).tolist()


def test_seed_decides_the_stream_and_none_does_not():
    def draws(seed):
        rng = Randomness(seed)
        return (
            *rng.words(4).tolist(),
            *rng.uniform(3),
            *rng.integers(1000, 9),
            *rng.permutation(20),
            *rng.gumbel(2),
        )

    assert draws(3) == draws(3) != draws(4)
    assert draws(None) != draws(None)
    assert Randomness(0).seeded
    assert not Randomness().seeded
    assert Randomness().generator is None


def test_nothing_touches_numpys_global_state(rng):
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    for law in (rng.words, rng.uniform, rng.small_uniform, rng.gumbel, rng.permutation, rng.exact_uniform):
        law(5)
    rng.integers(5, 5)
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002
    other = Randomness(2)
    np.random.seed(0)  # noqa: NPY002
    np.testing.assert_array_equal(other.uniform(5), Randomness(2).uniform(5))


@pytest.mark.parametrize(
    "law", ["words", "uniform", "small_uniform", "gumbel", "permutation", "exact_uniform"]
)
def test_empty_draws(law, rng):
    assert len(getattr(rng, law)(0)) == 0
    assert len(rng.integers(3, 0)) == 0


def test_continuous_laws(rng):
    n = 40_000
    assert stats.kstest(rng.uniform(n), "uniform").pvalue > ALARM
    assert stats.kstest(rng.small_uniform(n), "uniform").pvalue > ALARM
    assert stats.kstest(rng.gumbel(n), "gumbel_r").pvalue > ALARM
    assert stats.kstest([float(u) for u in rng.exact_uniform(4000)], "uniform").pvalue > ALARM
    # test of the test: a Gumbel law of the wrong sign or scale is told apart
    assert stats.kstest(-rng.gumbel(n), "gumbel_r").pvalue < ALARM
    assert stats.kstest(1.2 * rng.gumbel(n), "gumbel_r").pvalue < ALARM


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("word", [0, 1, 2**11, 2**12 - 1, 2**63 - 1, 2**63, 2**64 - 2**11, 2**64 - 1])
def test_uniforms_stay_inside_the_open_interval(word):
    rng = Words(word)
    for u in (*rng.uniform(2), *rng.small_uniform(2), *rng.exact_uniform(2)):
        assert 0 < u < 1
    assert np.isfinite(rng.gumbel(2)).all()
    # symmetric about one half: the complement of the word gives the complement of the draw, exactly
    assert Words(word).uniform(1)[0] + Words(2**64 - 1 - word).uniform(1)[0] == 1.0
    assert Words(word).exact_uniform(1)[0] + Words(2**64 - 1 - word).exact_uniform(1)[0] == 1


def test_exact_uniforms_are_the_centres_of_2_to_256_cells():
    for word in (0, 12345, 2**64 - 1):
        (u,) = Words(word).exact_uniform(1)
        assert u * 2**257 % 2 == 1


def test_small_uniforms_keep_the_lower_tail():
    # the position of the leading one gives the octave, the other word the 51 bits behind it
    for bit in (0, 1, 20, 52, 53, 63):
        for rest in (0, (1 << bit) // 3):
            low, high = (Words((1 << bit) + rest, tail).small_uniform(1)[0] for tail in (0, 2**64 - 1))
            assert 2.0 ** (bit - 64) < low < high < 2.0 ** (bit - 63)
            assert low == pytest.approx(2.0 ** (bit - 64), rel=1e-15)
            assert high == pytest.approx(2.0 ** (bit - 63), rel=1e-15)
    rng = Randomness(seed=5)
    u = rng.small_uniform(2_000_000)
    for k in (4, 8, 12, 16):
        seen = int((u < 2.0**-k).sum())
        assert stats.binomtest(seen, len(u), 2.0**-k).pvalue > ALARM
    # within a deep octave there are as many values as draws, not a lattice
    deep = np.sort(u[u < 2.0**-10])
    assert len(np.unique(deep)) == len(deep)
    assert (np.frexp(deep)[0] * 2**30 % 1 != 0).mean() > 0.999


def test_gumbel_upper_tail():
    g = Randomness(seed=6).gumbel(2_000_000)
    for z in (5.0, 9.0, 11.0):
        assert stats.binomtest(int((g > z).sum()), len(g), -math.expm1(-math.exp(-z))).pvalue > ALARM
    assert Words(0).gumbel(1)[0] > 43


def test_gumbel_maximum_chooses_in_proportion_to_the_weights(rng):
    weights = np.array([1.0, 2.0, 5.0, 0.5])
    n = 20_000
    chosen = np.argmax(np.log(weights) + rng.gumbel(4 * n).reshape(n, 4), axis=1)
    assert stats.chisquare(np.bincount(chosen, minlength=4), n * weights / weights.sum()).pvalue > ALARM


@pytest.mark.parametrize("high", [1, 2, 7, 1000])
def test_integers_are_uniform(high, rng):
    draws = rng.integers(high, 50_000)
    assert draws.dtype == np.int32
    counts = np.bincount(draws, minlength=high)
    assert len(counts) == high
    if high > 1:
        assert stats.chisquare(counts).pvalue > ALARM


def test_integers_reach_their_ends_and_stay_inside():
    for high in (1, 3, 2**31 - 1):
        assert Words(0).integers(high, 3).tolist() == [0] * 3
        assert Words(2**64 - 1).integers(high, 3).tolist() == [high - 1] * 3


def test_seeded_integers_do_not_depend_on_how_they_are_asked_for():
    """A file read in batches gets the partition that the whole table would get."""
    whole = Randomness(7).integers(900, 5000)
    rng = Randomness(7)
    parts = [rng.integers(900, size) for size in (1, 2, 997, 0, 3, 2500, 1497)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_permutations_are_uniform(rng):
    assert sorted(rng.permutation(100).tolist()) == list(range(100))
    seen = [tuple(rng.permutation(3)) for _ in range(6000)]
    counts = [seen.count(order) for order in set(seen)]
    assert len(counts) == 6
    assert stats.chisquare(counts).pvalue > ALARM
