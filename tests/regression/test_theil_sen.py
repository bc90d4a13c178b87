"""Theil-Sen: the closed form at a large budget, how far one record moves its scores, and how it fails."""

import itertools
import warnings
from collections import Counter
from unittest import mock

import numpy as np
import pandas as pd
import pytest

import dpstats
from dpstats import FormulaError, Ledger, ParameterError, ReleaseFailed
from dpstats.mechanisms.rng import Randomness
from dpstats.regression import theil_sen as module
from dpstats.regression.theil_sen import _lines_at, _matching


def frame(n=4000, seed=0, outliers=0.2):
    generator = np.random.default_rng(seed)
    x = generator.uniform(0, 10, n)
    y = 3 + 2 * x + generator.standard_normal(n)
    y[generator.random(n) < outliers] += 1000
    return pd.DataFrame({"x": x, "y": y})


class TestEstimate:
    def test_is_the_median_of_pairwise_lines_at_a_large_budget(self):
        data = frame(300)
        fit = dpstats.theil_sen("y ~ x", data, eps=1e7, matchings=3, bounds={"x": (0, 10)}, seed=5)
        rng, x, y = Randomness(5), data["x"].to_numpy(), data["y"].to_numpy()
        pairs = np.concatenate([_matching(300, rng) for _ in range(3)])
        slope = (y[pairs[:, 1]] - y[pairs[:, 0]]) / (x[pairs[:, 1]] - x[pairs[:, 0]])
        at = [np.median(y[pairs[:, 0]] + slope * (p - x[pairs[:, 0]])) for p in (2.5, 7.5)]
        b = (at[1] - at[0]) / 5
        assert fit.params.to_numpy() == pytest.approx([at[0] - 2.5 * b, b], rel=1e-2)

    @pytest.mark.parametrize("bounds", [None, {"x": (0, 10)}, {"x": (0, 10), "y": (0, 2000)}])
    def test_withstands_outliers(self, bounds):
        fit = dpstats.theil_sen("y ~ x", frame(), eps=3, bounds=bounds, seed=2)
        assert fit.params["x"] == pytest.approx(2, abs=0.6)

    def test_results(self):
        fit = dpstats.theil_sen("y ~ x", frame(), eps=2, seed=2)
        assert fit.nobs == 4000 and np.isnan(fit.bse).all() and "not released" in str(fit)
        assert fit.guarantee.neighbours == "substitution" and fit.guarantee.kind == "pure"
        assert sum(s.eps for s in fit.guarantee.spends) == pytest.approx(2)
        assert fit.predict({"x": [0.0, 1.0]}) == pytest.approx([fit.params.iloc[0], fit.params.sum()])

    def test_groups(self):
        data = frame().assign(g=np.repeat(["a", "b"], 2000))
        fits = dpstats.theil_sen("y ~ x", data, eps=5, by="g", levels={"g": ["a", "b"]}, seed=3)
        assert fits.params["x"].to_numpy() == pytest.approx([2, 2], abs=0.6)

    def test_the_budget_is_split_between_the_points(self, monkeypatch):
        """The public code gives the whole budget to each of the two medians."""
        spent = []
        monkeypatch.setattr(module, "quantile", lambda x, q, eps, rng, **k: spent.append(10 * eps) or q)
        monkeypatch.setattr(module, "private_points", lambda x, *eps: spent.extend(eps[:2]) or (0.0, 1.0))
        dpstats.theil_sen("y ~ x", frame(), eps=2, seed=1)
        assert sum(spent) == pytest.approx(0.95 * 2)
        assert len(spent) == 4

    def test_a_narrow_column_far_from_0(self):
        """Moments of one minute: both points stay within some lengths of it."""
        rng = np.random.default_rng(0)
        x = 1.7e9 + rng.uniform(0, 60, 2_000)
        y = (x - 1.7e9 - 30) / 17 + 0.5 * rng.normal(size=2_000)
        fit = dpstats.theil_sen("y ~ x", {"x": x, "y": y}, eps=1, matchings=5, seed=1)
        assert fit.predict({"x": [1.7e9 + 30]})[0] == pytest.approx(0, abs=0.1)

    @pytest.mark.parametrize("share", [0.27, 0.3, 0.6])
    def test_slopes_of_columns_of_few_values(self, share):
        """Private quartiles fell next to the value that many rows have, and slopes were 1e90 and more."""
        for seed in range(3):
            rng = np.random.default_rng(seed)
            for x in ((rng.random(5_000) < share) * 1.0, np.maximum(rng.poisson(2, 5_000) - 2.0, 0)):
                y = 3 + 2 * x + rng.normal(size=5_000)
                fit = dpstats.theil_sen("y ~ x", {"x": x, "y": y}, eps=1, seed=seed)
                assert fit.params.to_numpy() == pytest.approx([3, 2], abs=0.5)


def law(n):
    """Exact law of the pairs of one matching."""
    count = Counter()
    for p in itertools.permutations(range(n)):
        pairs = frozenset(frozenset(p[i : i + 2]) for i in range(0, n - n % 2, 2))
        count[pairs] += 1
    total = sum(count.values())
    return {pairs: c / total for pairs, c in count.items()}


def without(pairs, r, n):
    """The coupling: the matching of the other rows that goes with a matching of all `n`."""
    left = set(range(n)) - set().union(*pairs)
    kept = {p for p in pairs if r not in p}
    partner = {i for p in pairs if r in p for i in p} - {r}
    alone = (left - {r}) | partner
    return frozenset(kept | ({frozenset(alone)} if len(alone) == 2 else set()))


class TestSensitivity:
    @pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 7])
    def test_a_row_that_drops_out_changes_one_pair(self, n):
        """The coupling has the right law on the remaining rows, and differs by one pair at most."""
        r, coupled = n - 1, Counter()
        for pairs, probability in law(n).items():
            rest = without(pairs, r, n)
            assert len(pairs - rest) <= 1 and len(rest - pairs) <= 1
            coupled[rest] += probability
        expected = law(n - 1)
        assert coupled.keys() == expected.keys()
        for pairs, probability in expected.items():
            assert coupled[pairs] == pytest.approx(probability, abs=1e-12)

    def test_matchings_are_disjoint_and_uniform(self):
        rng, expected = Randomness(4), law(5)
        seen = Counter(frozenset(frozenset(p) for p in _matching(5, rng).tolist()) for _ in range(6000))
        assert seen.keys() == expected.keys()
        # 15 matchings of expected count 400: beyond 6 standard deviations at a rate of 1e-7
        assert max(abs(c - 400) for c in seen.values()) < 6 * np.sqrt(400)

    @staticmethod
    def loss(x, y, record, matchings):
        """The largest change of ``eps score`` of a median of the release, when a record is replaced and coins
        stay as they are."""
        seen = []

        def draw(lines, q, eps, rng, **more):
            grid = np.linspace(-30, 30, 241)
            half = len(lines) / 2
            below, upto = (lines < grid[:, None]).sum(axis=1), (lines <= grid[:, None]).sum(axis=1)
            seen.append(-eps * np.maximum(np.maximum(below - half, half - upto), 0.0))
            return 0.0

        guarantee = dpstats.Guarantee(1, 0, "substitution", "pure", ())
        budget = module._Budget(guarantee, len(x), matchings, (0.0, 1.0), None, 1.0, 0.0, 0.0, 1.0, -np.inf)
        x2, y2 = x.copy(), y.copy()
        x2[0], y2[0] = record
        with mock.patch.object(module, "quantile", draw), np.errstate(all="ignore"):
            for u, v in ((x, y), (x2, y2)):
                blocks = [(np.column_stack([np.ones(len(u)), u]), v[:, None])]
                module._release(blocks, budget, Randomness(9))
        return max(np.abs(seen[i] - seen[i + 2]).max() for i in range(2))

    @pytest.mark.parametrize("matchings", [1, 4])
    @pytest.mark.slow
    def test_a_replaced_record_moves_the_score_by_what_the_median_pays_for(self, matchings):
        """A median at `eps_median` of 1, whose score may move by 1 at its budget, however many matchings
        there are."""
        generator = np.random.default_rng(1)
        worst = 0.0
        for n in (4, 5, 20):
            for _ in range(20):
                x, y = generator.integers(0, 4, (2, n)).astype(float)
                for record in ((0.0, 50.0), (3.0, -50.0), (1e300, 1e300), (x[1], y[1])):
                    worst = max(worst, self.loss(x, y, record, matchings))
        assert 0.5 < worst <= 1

    @pytest.mark.parametrize("matchings", [1, 4])
    def test_a_replaced_record_moves_the_number_of_pairs_by_what_its_noise_is_for(self, matchings):
        """The one record that differs from all others is in a pair of every matching, or in none."""
        seen = []

        def count(value, sensitivity, eps, rng):
            seen.append((value, sensitivity))
            return value

        guarantee = dpstats.Guarantee(1, 0, "substitution", "pure", ())
        budget = module._Budget(guarantee, 20, matchings, (0.0, 1.0), None, 1.0, 0.0, 0.0, 1.0, -np.inf)
        with (
            mock.patch.object(module, "laplace", count),
            mock.patch.object(module, "quantile", lambda *_, **__: 0),
        ):
            for first in (0.0, 1.0):
                x = np.append(first, np.zeros(19))
                module._release([(np.column_stack([np.ones(20), x]), x[:, None])], budget, Randomness(9))
        (without, sensitivity), (within, _) = seen
        assert within - without == 1 == sensitivity

    def test_of_the_test_pairs_that_share_a_row_are_caught(self, monkeypatch):
        monkeypatch.setattr(
            module, "_matching", lambda n, rng: np.column_stack([np.zeros(n - 1, int), np.arange(1, n)])
        )
        x, y = np.random.default_rng(1).standard_normal((2, 20))
        assert self.loss(x, y, (0.0, 1e6), 1) > 1


class TestLines:
    def test_extreme_pairs_are_finite_or_left_out_in_silence(self):
        values = np.array([0.0, 5e-324, -1e308, 1.7e308, 1.0])
        x1, y1, x2, y2 = np.array(list(itertools.product(values, repeat=4))).T
        keep = x1 != x2
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("error")
            lines = _lines_at(x1[keep], y1[keep], x2[keep], y2[keep], 0.3)
        assert np.isfinite(lines).all() and len(lines) > 100


class TestFailures:
    def test_constant_column(self):
        ledger = Ledger(":memory:", eps=10, delta=0)
        with pytest.raises(ReleaseFailed, match="Only the count was spent") as failure:
            dpstats.theil_sen("y ~ x", frame().assign(x=1.0), eps=2, ledger=ledger)
        assert failure.value.guarantee.eps == pytest.approx(0.1)
        assert ledger.remaining("substitution")[0] == pytest.approx(9.9)

    def test_unusable_rows_and_no_rows_of_use(self):
        data = frame()
        data.loc[10:, "y"] = np.nan
        for changed in (data, data.assign(y=np.nan)):
            with pytest.raises(ReleaseFailed, match="fewer than"):
                dpstats.theil_sen("y ~ x", changed, eps=2)

    def test_too_few_rows_are_refused_before_anything_is_spent(self):
        ledger = Ledger(":memory:", eps=1, delta=0)
        with pytest.raises(ParameterError, match="rows are too few"):
            dpstats.theil_sen("y ~ x", frame(100), eps=1, ledger=ledger)
        assert ledger.remaining("substitution")[0] == 1

    @pytest.mark.parametrize("formula", ["y ~ 1", "y ~ 0 + x", "y ~ x + I(x**2)", "y + x ~ x"])
    def test_other_formulas(self, formula):
        with pytest.raises(FormulaError):
            dpstats.theil_sen(formula, frame(), eps=1)
