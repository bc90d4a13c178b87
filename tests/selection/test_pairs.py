"""Signs of pairs: the score against its definition, how far one record moves it, and what is chosen."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from dpstats.engines.local import Rows
from dpstats.mechanisms.rng import Randomness
from dpstats.selection import _kernels, kendall, pairs
from dpstats.selection.pairs import BET, REACH, WIDTH, choose_terms, column_sets, feasible, scores

MOVES = -3 * BET - BET**2 / 2, 3 * BET - BET**2 / 2
"""A record added moves a score by an amount between these."""


def signs_of_pairs(rows, reach):
    """The differences' signs of all pairs at most `reach` apart, one line each; the response's comes last."""
    rows = np.asarray(rows, float)
    lags = range(1, min(reach, len(rows) - 1) + 1)
    return np.vstack([np.empty((0, rows.shape[1])), *(np.sign(rows[t:] - rows[:-t]) for t in lags)])


def by_definition(rows, columns):
    """The score of one set of columns: the best bet on every pattern, looked for on a grid."""
    signs = signs_of_pairs(rows, REACH)
    bets = np.linspace(-BET, BET, 4001)
    lines = {}
    for line in signs:
        pattern, response = tuple(line[columns]), line[-1]
        mirror = tuple(-v for v in pattern)
        if pattern != mirror:
            turned = pattern < mirror
            lines.setdefault(min(pattern, mirror), []).append(response if turned else -response)
    gains = (np.max(2 * sum(line) * bets - len(line) * bets**2) for line in lines.values())
    return sum(gains) / (2 * REACH)


def score(rows, columns):
    return scores(np.ascontiguousarray(np.asarray(rows, float).T), np.array([columns]))[0]


small_tied = st.lists(st.tuples(*[st.integers(0, 2)] * 4), min_size=0, max_size=25)


class TestScores:
    @pytest.mark.slow
    @settings(max_examples=150, deadline=None, derandomize=True)
    @given(small_tied, st.sampled_from([[0], [1, 2], [0, 1, 2]]))
    def test_equals_the_definition_with_ties(self, rows, columns):
        rows = np.array(rows, float).reshape(-1, 4)
        # a grid of 4,001 bets misses at most (BET/4000)^2 a pair
        assert score(rows, columns) == pytest.approx(by_definition(rows, columns), abs=1e-6)

    @pytest.mark.slow
    def test_many_rows_and_sets_in_parts_and_threads(self, monkeypatch):
        rows = np.random.default_rng(1).standard_normal((2500, 6)).round(1)
        values, sets = np.ascontiguousarray(rows.T), np.array(list(itertools.combinations(range(5), 2)))
        expected = [by_definition(rows, list(s)) for s in sets]
        assert scores(values, sets) == pytest.approx(expected, abs=1e-3)
        for part, workers in ((256, 1), (3, 4)):
            monkeypatch.setattr(pairs, "_PART", part)
            monkeypatch.setattr(pairs, "WORKERS", workers)
            assert scores(values, sets) == pytest.approx(expected, abs=1e-3)

    @pytest.mark.parametrize("n", [0, 1, 2, 9, 100])
    def test_perfect_order(self, n):
        up = np.arange(n, dtype=float)
        made = sum(max(n - t, 0) for t in range(1, REACH + 1))
        for y in (up, -up):
            assert score(np.column_stack([up, y]), [0]) == pytest.approx(
                (2 * BET - BET**2) * made / (2 * REACH)
            )

    def test_constant_columns_and_responses_are_worth_nothing(self):
        up, flat = np.arange(50.0), np.zeros(50)
        assert score(np.column_stack([flat, up]), [0]) == 0 == score(np.column_stack([up, flat]), [0])

    def test_only_the_order_of_values_matters(self):
        rows = np.random.default_rng(2).standard_normal((300, 4))
        assert score(np.exp(5 * rows), [0, 1, 2]) == score(rows, [0, 1, 2])

    def test_kernel_without_the_compiler(self):
        values = np.random.default_rng(3).integers(0, 3, (4, 40)).astype(float)
        sets = np.array([[0, 1], [0, 2], [1, 2]])
        tables, plain = np.zeros((2, 3, 18), np.int64)
        _kernels.count_patterns(values, 5, sets, tables)
        _kernels.count_patterns.py_func(values, 5, sets, plain)
        assert np.array_equal(tables, plain) and (tables.sum(axis=1) == 40 * 5 - 15).all()


def adversarial():
    """Rows in order, the place where a record joins, and the record; two columns and the response."""
    generator = np.random.default_rng(20230601)
    for n in (0, 1, 2, 3, 5, 9, 20):
        for _ in range(60):
            yield (
                generator.integers(0, 3, (n, 3)).astype(float),
                int(generator.integers(0, n + 1)),
                generator.choice([-9.0, 0.0, 0.5, 1.0, 2.0, 9.0], 3),
            )
    for n in (3 * REACH, 20 * REACH):
        up = np.arange(n, dtype=float)
        rare = (up == n // 2).astype(float)
        half = (up >= n / 2).astype(float)
        # against the response near the middle, with it elsewhere
        kinked = np.where(abs(up - n / 2) < REACH, n - up, up)
        columns = up, -up, rare, half, kinked, np.zeros(n)
        for a, b, y in itertools.product(columns, columns, (up, -up, kinked, rare)):
            rows = np.column_stack([a, b, y])
            for record in itertools.product((-n, n / 2, 2 * n), repeat=3):
                yield rows, n // 2, np.array(record)


def moves(statistic, columns, replace=False):
    """How the statistic moves when a record joins, or takes the place of another, over all cases."""
    out, before, last = [], None, None
    for rows, place, record in adversarial():
        if replace and place == len(rows):
            continue
        after = np.insert(np.delete(rows, place, 0) if replace else rows, place, record, axis=0)
        if rows is not last:
            before, last = statistic(rows, columns), rows
        out.append(statistic(after, columns) - before)
    return out


class TestSensitivity:
    @pytest.mark.slow
    @pytest.mark.parametrize("columns", [[0], [0, 1]])
    def test_a_record_moves_a_score_within_the_interval(self, columns):
        moved = moves(score, columns)
        assert MOVES[0] - 1e-9 <= min(moved) and max(moved) <= MOVES[1] + 1e-9

    @pytest.mark.slow
    def test_a_replaced_record_moves_it_within_its_width(self):
        moved = moves(score, [0, 1], replace=True)
        assert max(map(abs, moved)) <= WIDTH["substitution"] / 2 + 1e-9

    @staticmethod
    def attained():
        """Moves of two columns by one record: against one column's order; with the other's, amid pairs
        against it."""
        n, place = 400, 200
        up = np.arange(n, dtype=float)
        swapped = up.copy()
        swapped[place - REACH : place] += REACH
        swapped[place : place + REACH] -= REACH
        rows = np.column_stack([up, swapped, up])
        after = np.insert(rows, place, [-1e9, 1e9, 1e9], axis=0)
        return [score(after, [j]) - score(rows, [j]) for j in (0, 1)]

    def test_both_ends_are_attained_at_once(self):
        assert self.attained() == pytest.approx(MOVES)
        assert WIDTH["add-remove"] == pytest.approx(MOVES[1] - MOVES[0])

    def test_of_the_test_a_narrower_width_is_caught(self):
        assert np.ptp(self.attained()) > 0.99 * WIDTH["add-remove"]

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "broken",
        [
            # not divided by the pairs on both sides
            lambda rows, columns: 2 * score(rows, columns),
            # a mean over untied pairs, as in tau-b
            lambda rows, columns: (
                score(rows, columns)
                * len(rows)
                * REACH
                / max(np.sum(signs_of_pairs(rows, REACH)[:, columns[0]] != 0), 1)
            ),
        ],
    )
    def test_of_the_test_other_scores_are_caught(self, broken):
        moved = moves(broken, [0])
        assert min(moved) < MOVES[0] - 1e-3 or max(moved) > MOVES[1] + 1e-3

    def test_of_the_test_larger_bets_are_caught(self, monkeypatch):
        monkeypatch.setattr(pairs, "BET", 1.0)
        assert np.ptp(self.attained()) > 2 * WIDTH["add-remove"]


class InOrder(Randomness):
    """Leaves the rows in their order."""

    def permutation(self, n):
        return np.arange(n)


def choose(rows, terms, k, eps=1e7, rng=None):
    return choose_terms(Rows(rows[:, :-1], rows[:, -1]), terms, k, eps, "add-remove", rng or Randomness(1))


class TestChooseTerms:
    @pytest.mark.parametrize("neighbours", ["add-remove", "substitution"])
    def test_hands_scores_and_width_to_the_mechanism(self, neighbours, monkeypatch):
        seen = []
        monkeypatch.setattr(pairs, "choose", lambda *given: seen.append(given) or 2)
        rows = np.random.default_rng(4).integers(0, 4, (60, 5)).astype(float)
        terms, rng = [[0], [2, 3], [1]], InOrder(0)
        assert choose_terms(Rows(rows[:, :4], rows[:, 4]), terms, 2, 0.7, neighbours, rng) == [1, 2]
        ((found, width, eps, source),) = seen
        best = [
            max(score(rows, list(c)) for c in itertools.product(*s)) for s in itertools.combinations(terms, 2)
        ]
        assert found == pytest.approx(best)
        assert WIDTH[neighbours] < width < WIDTH[neighbours] * (1 + 1e-3) and eps == 0.7 and source is rng

    @pytest.mark.slow
    def test_frequencies_follow_the_exact_law(self):
        """2,000 draws; a chi-square test with false-alarm rate 1e-6."""
        generator = np.random.default_rng(5)
        rows = generator.standard_normal((300, 5))
        rows[:, 4] += rows[:, :4] @ [0.6, 0.4, 0.2, 0.0]
        eps, rng = 0.15, InOrder(6)
        sets = list(itertools.combinations(range(4), 2))
        weights = np.exp(eps * np.array([score(rows, list(s)) for s in sets]) / WIDTH["add-remove"])
        expected = 2000 * weights / weights.sum()
        drawn = [tuple(choose(rows, [[j] for j in range(4)], 2, eps, rng)) for _ in range(2000)]
        counts = np.array([drawn.count(s) for s in sets])
        assert expected.min() > 20 and np.ptp(expected) > 100
        assert np.sum((counts - expected) ** 2 / expected) < chi2.isf(1e-6, len(sets) - 1)

    def test_rows_are_paired_in_random_order(self, monkeypatch):
        """The order has to ignore the data: that of the source of randomness, whatever the rows hold."""
        seen = []
        monkeypatch.setattr(pairs, "scores", lambda values, sets: seen.append(values) or np.zeros(len(sets)))
        rows = np.random.default_rng(6).standard_normal((40, 3))
        choose(rows, [[0], [1]], 1, 1.0, Randomness(9))
        np.testing.assert_array_equal(seen[0].T, rows[Randomness(9).permutation(40)])

    def test_sees_a_column_that_matters_only_beside_another(self):
        """y = x0 - x1, and x1 alone is unrelated to y: DPKendall without noise takes a weak copy of x0
        instead."""
        generator = np.random.default_rng(7)
        z, e, *noise = generator.standard_normal((5, 4000))
        rows = np.column_stack([z + e, z, *noise, e + 0.5 * generator.standard_normal(4000)])
        terms = [[j] for j in range(5)]
        assert choose(rows, terms, 2) == [0, 1]
        ranks = kendall.rank_columns(Rows(rows[:, :5], rows[:, 5]), range(5))
        assert 1 not in kendall.choose_terms(ranks, terms, 2, 1e7, "add-remove", Randomness(1))

    def test_takes_one_of_each_pair_of_copies(self):
        generator = np.random.default_rng(8)
        informative = generator.standard_normal((5000, 5))
        y = informative.sum(axis=1) + generator.standard_normal(5000)
        rows = np.column_stack([np.repeat(informative, 2, axis=1), generator.standard_normal((5000, 3)), y])
        chosen = choose(rows, [[j] for j in range(13)], 5, eps=1.0)
        assert [j // 2 for j in chosen] == [0, 1, 2, 3, 4]

    @pytest.mark.parametrize("n", [0, 1, 2])
    def test_few_rows_choose_something(self, n):
        assert len(choose(np.zeros((n, 4)), [[0], [1], [2]], 2)) == 2


class TestOverAllOrders:
    """The exact law of a choice, averaged over every order of a few rows, for neighbours. Reach 1, so that
    pairs part."""

    eps = 2.0

    def law(self, rows, width):
        orders = [np.array(order, dtype=np.intp) for order in itertools.permutations(range(len(rows)))]
        found = np.array([scores(np.ascontiguousarray(rows[o].T), np.array([[0], [1]])) for o in orders])
        weights = np.exp(self.eps * found / width)
        return np.mean(weights / weights.sum(axis=1, keepdims=True), axis=0)

    def loss(self, monkeypatch, width=WIDTH["add-remove"]):
        monkeypatch.setattr(pairs, "REACH", 1)
        up = np.arange(4.0)
        worst = 0.0
        for a, b in itertools.product((up, -up, 0 * up, up % 2), repeat=2):
            rows = np.column_stack([a, b, up])
            for record in ((9, -9, 9), (-9, 9, 9), (1.5, -9, 1.5), (9, 0, -9)):
                laws = self.law(rows, width), self.law(np.vstack([rows, record]), width)
                worst = max(worst, np.abs(np.log(laws[0] / laws[1])).max())
        return worst

    def test_is_within_eps(self, monkeypatch):
        assert self.loss(monkeypatch) <= self.eps

    @pytest.mark.slow
    def test_of_the_test_a_far_narrower_width_is_caught(self, monkeypatch):
        assert self.loss(monkeypatch, WIDTH["add-remove"] / 4) > self.eps


class TestSets:
    @settings(max_examples=60, deadline=None, derandomize=True)
    @given(st.lists(st.integers(1, 4), min_size=2, max_size=6), st.integers(1, 5))
    def test_all_of_them_once(self, sizes, k):
        flat = iter(range(sum(sizes)))
        terms = [[next(flat) for _ in range(size)] for size in sizes]
        chosen, columns, starts = column_sets(terms, k) if k <= len(sizes) else ([], [], [])
        expected = sum(math.prod(members) for members in itertools.combinations(sizes, k))
        assert len(columns) == len({tuple(c) for c in columns}) == expected
        owner = {j: t for t, term in enumerate(terms) for j in term}
        ends = [*starts[1:], len(columns)]
        for members, first, last in zip(chosen, starts, ends, strict=False):
            assert all(tuple(owner[j] for j in c) == members for c in columns[first:last])

    def test_feasible_counts_choices_of_columns(self, monkeypatch):
        monkeypatch.setattr(pairs, "MOST_SETS", 26)
        # 1*2 + 1*3 + 1*4 + 2*3 + 2*4 + 3*4 = 35 pairs, 24 + 6 + 8 + 12 = 50 triples, 24 of all four
        assert [feasible([1, 2, 3, 4], k) for k in (1, 2, 3, 4)] == [True, False, False, True]

    def test_at_most_seven_terms_and_five_thousand_sets(self):
        assert feasible([1] * 16, 5) and not feasible([1] * 17, 5)
        assert feasible([1] * 9, 7) and not feasible([1] * 9, 8)
