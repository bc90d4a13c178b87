"""SubLasso: what a subset votes for, and that one record changes one subset's vote."""

import contextlib
import sys
import warnings

import numpy as np
import pytest
from scipy import stats

import dpstats
from dpstats.engines.local import Rows
from dpstats.mechanisms.rng import Randomness
from dpstats.selection import sub_lasso
from dpstats.selection.sub_lasso import choose_terms, votes


def data(n, d, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((n, d))
    return X, X[:, :3] @ [3.0, 2.0, -1.5] + generator.standard_normal(n)


class TestVotes:
    def test_finds_the_informative_columns(self):
        X, y = data(200, 12)
        assert np.flatnonzero(votes(X, y, np.arange(13), 3)).tolist() == [0, 1, 2]

    def test_does_not_depend_on_units(self):
        X, y = data(60, 5)
        X[:, 4] = 7.0
        units = np.array([1e-200, 1e20, 1.0, 1e-5, 1e25])
        starts = np.arange(6)
        assert np.array_equal(votes(X, y, starts, 2), votes(X * units + 3 * units, 1e-100 * y, starts, 2))

    def test_a_term_votes_as_a_whole(self):
        X, y = data(200, 6)
        assert votes(X, y, np.array([0, 1, 4, 6]), 2).tolist() == [True, True, False]

    def test_at_most_k_and_none_without_signal(self):
        X, y = data(40, 6)
        assert votes(X, y, np.arange(7), 2).sum() == 2
        assert not votes(X, np.ones(40), np.arange(7), 2).any()
        assert not votes(np.ones((40, 6)), y, np.arange(7), 2).any()
        assert not votes(X[:1], y[:1], np.arange(7), 2).any()

    @pytest.mark.filterwarnings("error")
    def test_whether_a_subset_converges_is_not_told(self, monkeypatch):
        monkeypatch.setattr(sub_lasso, "_ITERATIONS", 1)
        X, y = data(40, 6)
        X += X[:, :1]
        with pytest.warns(UserWarning, match="did not converge"), monkeypatch.context() as loud:
            loud.setattr(sub_lasso, "quiet", contextlib.nullcontext)
            votes(X, y, np.arange(7), 2)
        votes(X, y, np.arange(7), 2)

    def test_silent_on_extreme_values(self):
        X, y = data(12, 4)
        # (whose sum is no double)
        X[:2], y[:2] = 1e308, -1e308
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with np.errstate(all="raise", under="ignore"):
                votes(X, y, np.arange(5), 2)


class TestSensitivity:
    """Counts of votes with the same draw of subsets, for data that differ in one record."""

    @staticmethod
    def counts(X, y, leak=False):
        # the broken variant draws subsets by rank of the response: one record shifts all that follow it
        order = np.argsort(y) if leak else np.arange(len(y))
        return sub_lasso._count_votes(Rows(X[order], y[order]), [[j] for j in range(6)], 2, 40, Randomness(5))

    @staticmethod
    def most_moved(leak):
        moved = 0.0
        for seed in range(10):
            X, y = data(200, 6, seed)
            before = TestSensitivity.counts(X, y, leak)
            i = np.argsort(y)[20]
            X[i], y[i] = 1e6, 1e6
            moved = max(moved, np.abs(TestSensitivity.counts(X, y, leak) - before).max())
        return moved

    def test_a_row_draws_its_subset_by_itself(self, monkeypatch):
        """Sizes vary as those of a multinomial: by place a row in front would move all others."""
        sizes = []
        monkeypatch.setattr(
            sub_lasso, "votes", lambda X, y, starts, k: sizes.append(len(y)) or np.zeros(len(starts) - 1)
        )
        self.counts(*data(2_000, 6))
        assert len(sizes) == 40 and stats.chisquare(sizes).pvalue > 1e-6 and np.var(sizes) > 15

    @pytest.mark.slow
    def test_one_record_moves_every_count_by_one_at_most(self):
        assert self.most_moved(leak=False) == 1

    @pytest.mark.slow
    def test_of_the_test_subsets_by_rank_are_caught(self):
        assert self.most_moved(leak=True) > 1


class TestChooseTerms:
    @pytest.mark.slow
    def test_informative_terms_win(self):
        X, y = data(8000, 10)
        chosen = choose_terms(Rows(X, y), [[j] for j in range(10)], 3, 0.5, 1.0, Randomness(3))
        assert sorted(chosen) == [0, 1, 2]

    def test_rows_are_thinned_where_they_are_many(self, monkeypatch):
        monkeypatch.setattr(sub_lasso, "_MOST_SUBSETS", 10)
        monkeypatch.setattr(sub_lasso, "_MOST_ROWS", 20)
        seen = []
        monkeypatch.setattr(
            sub_lasso, "votes", lambda X, y, starts, k: seen.append(len(y)) or np.zeros(len(starts) - 1)
        )
        X, y = data(2000, 4)
        choose_terms(Rows(X, y), [[0], [1], [2], [3]], 1, 1.0, 1.0, Randomness(0))
        assert len(seen) == 10 and 200 <= sum(seen) <= 400

    def test_width_and_number_of_subsets(self, monkeypatch):
        """Counts of votes move by 1 either way; how many subsets there are follows the released count."""
        given, subsets = [], []
        monkeypatch.setattr(
            sub_lasso, "choose", lambda scores, width, eps, rng: given.append((width, eps)) or 0
        )
        monkeypatch.setattr(sub_lasso, "discrete_laplace", lambda value, eps, rng: 700)
        monkeypatch.setattr(
            sub_lasso,
            "_count_votes",
            lambda blocks, terms, k, m, rng: subsets.append(m) or np.zeros(len(terms)),
        )
        for n in (500, 900):
            choose_terms(Rows(*data(n, 4)), [[0], [1], [2], [3]], 2, 0.5, 1.2, Randomness(0))
        assert given == [(2.0, 1.2)] * 4 and subsets == [70, 70]

    def test_no_rows(self):
        empty = Rows(np.empty((0, 3)), np.empty((0, 1)))
        assert len(choose_terms(empty, [[0], [1], [2]], 2, 1.0, 1.0, Randomness(0))) == 2


def test_without_scikit_learn_it_says_what_to_install(monkeypatch):
    call = {"k": 1, "eps": 1, "method": "sub_lasso"}
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    with pytest.raises(ImportError, match=r"pip install 'dpstats\[selection\]'"):
        dpstats.select_features("y ~ a + b", {"y": np.ones(3), "a": np.ones(3), "b": np.ones(3)}, **call)
