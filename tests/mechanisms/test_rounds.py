"""Peeling: the law of a round, and that the rounds cost together no more than is claimed."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from dpstats.mechanisms import rounds
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.rounds import choose, per_round, rounds_delta, rounds_rho
from dpstats.privacy.conversions import zcdp_rho

FALSE_ALARM = 1e-6


def ordered_law(scores, k, width, step):
    """Exact probabilities of every ordered choice of `k` candidates."""
    law = {(): 1.0}
    for _ in range(k):
        nxt = {}
        for chosen, probability in law.items():
            left = [j for j in range(len(scores)) if j not in chosen]
            weights = np.exp(np.array([scores[j] for j in left]) * step / width)
            for j, w in zip(left, weights / weights.sum(), strict=True):
                nxt[chosen + (j,)] = probability * w
        law = nxt
    return law


def hockey_stick(p, q, eps):
    return sum(max(p[o] - math.exp(eps) * q[o], 0.0) for o in p)


def peel(scores, k, width, step, rng):
    left = list(range(len(scores)))
    return tuple(left.pop(choose([scores[j] for j in left], width, step, rng)) for _ in range(k))


class TestLaw:
    scores, k, width, step, draws = (0.0, 1.0, 2.5, 1.2), 2, 2.5, 1.5, 15_000

    def off(self, sample):
        """The ordered choices whose frequency is off their exact law, at FALSE_ALARM over all of them."""
        rng = Randomness(11)
        law = ordered_law(self.scores, self.k, self.width, self.step)
        seen = [sample(rng) for _ in range(self.draws)]
        tail = FALSE_ALARM / len(law) / 2
        low = {o: binom.ppf(tail, self.draws, p) for o, p in law.items()}
        high = {o: binom.isf(tail, self.draws, p) for o, p in law.items()}
        return [o for o in law if not low[o] <= seen.count(o) <= high[o]]

    @pytest.mark.slow
    def test_frequencies_follow_the_exact_gumbel_law(self):
        assert self.off(lambda rng: peel(self.scores, self.k, self.width, self.step, rng)) == []

    @pytest.mark.slow
    def test_of_the_test_half_the_noise_is_caught(self):
        assert self.off(lambda rng: peel(self.scores, self.k, self.width / 2, self.step, rng))


class TestPerRound:
    def test_pure(self):
        assert per_round(1.0, 0.0, 5) == pytest.approx(0.2) and per_round(1.0, 0.0, 5) * 5 <= 1.0
        assert per_round(1.0, 1e-6, 1) == pytest.approx(1.0)

    @pytest.mark.slow
    @pytest.mark.parametrize("eps", [0.05, 1.0, 5.0])
    @pytest.mark.parametrize("rounds", [2, 5, 10, 40, 500])
    def test_no_worse_than_either_textbook_bound(self, eps, rounds):
        step = per_round(eps, 1e-6, rounds)
        assert step >= eps / rounds * (1 - 1e-12)
        assert rounds_rho(step, rounds) >= zcdp_rho(eps, 1e-6) * (1 - 1e-9)
        assert (
            rounds > 200
            or rounds_delta(step, rounds, eps) <= 1e-6 * (1 + 1e-9)
            or math.isclose(rounds_rho(step, rounds), zcdp_rho(eps, 1e-6), rel_tol=1e-9)
        )

    def test_the_rounds_cost_no_more_than_the_budget_to_the_last_digit(self):
        """Of quotients and roots every second one is rounded up, if nothing is done about it."""
        for k in range(201, 261):
            eps = 1 + k / 1000
            pure, step = (Fraction(per_round(eps, delta, k)) for delta in (0.0, 1e-6))
            assert k * pure <= Fraction(eps)
            assert k * step**2 / 8 <= Fraction(zcdp_rho(eps, 1e-6))

    def test_five_rounds_gain_over_pure(self):
        assert per_round(1.0, 1e-6, 5) > 1.15 / 5


class TestRoundsDelta:
    def test_one_round_in_closed_form(self):
        """The best two-point law, found on a fine grid."""
        step, eps = 1.0, 0.4
        t = np.linspace(0, step, 100_001)
        p = np.expm1(step - t) / (np.exp(step - t) - np.exp(-t))
        exact = np.max(p * np.maximum(1 - np.exp(eps - t), 0))
        assert exact <= rounds_delta(step, 1, eps) <= exact * 1.01

    def test_has_room_for_rounding(self, monkeypatch):
        """Of a few operations a round, by half a unit in the last place each, and for what cancels."""
        stated = np.array([rounds_delta(0.5, 8, eps) for eps in (1.0, 3.99)])
        monkeypatch.setattr(rounds, "_ROUNDING", (0.0, 0.0))
        bare = np.array([rounds_delta(0.5, 8, eps) for eps in (1.0, 3.99)])
        assert np.all(stated >= bare * (1 + 2.0**-40) + 2.0**-50)

    @pytest.mark.parametrize("eps", [0.1, 0.6, 1.2])
    def test_bounds_equal_laws_and_is_nearly_attained(self, eps):
        """The same two-point law in every round is one adversary: never above, and close for the best."""
        step, rounds = 0.5, 4
        best = 0.0
        for t in np.linspace(0.01, step, 200):
            p = math.expm1(step - t) / (math.exp(step - t) - math.exp(-t))
            j = np.arange(rounds + 1)
            loss = j * t + (rounds - j) * (t - step)
            best = max(best, float(binom.pmf(j, rounds, p) @ np.maximum(1 - np.exp(eps - loss), 0)))
        bound = rounds_delta(step, rounds, eps)
        assert best <= bound <= 1.1 * best + 1e-12

    @pytest.mark.slow
    def test_peeling_stays_below(self):
        """Adaptive peeling between neighbouring scores that move within the width, both ways."""
        generator = np.random.default_rng(2)
        closest = 0.0
        for _ in range(60):
            scores = generator.normal(0, 3, 5)
            moved = scores + generator.choice([0.0, 1.0], 5) * 2.5 - 1.5
            p, q = (ordered_law(s, 3, 2.5, 0.6) for s in (scores, moved))
            for eps in (0.2, 0.6, 1.0):
                bound = rounds_delta(0.6, 3, eps)
                found = max(hockey_stick(p, q, eps), hockey_stick(q, p, eps))
                assert found <= bound + 1e-12
                closest = max(closest, found / bound)
        assert closest > 0.3

    def test_of_the_test_wider_moves_are_caught(self):
        scores = np.zeros(5)
        moved = scores + np.array([5.0, 0.0, 0.0, 0.0, 0.0])
        p, q = (ordered_law(s, 3, 2.5, 0.6) for s in (scores, moved))
        assert max(hockey_stick(p, q, 0.6), hockey_stick(q, p, 0.6)) > rounds_delta(0.6, 3, 0.6)

    def test_decreases_in_eps_and_vanishes(self):
        values = [rounds_delta(0.3, 6, eps) for eps in np.linspace(0, 1.9, 20)]
        assert all(a >= b for a, b in zip(values[:-1], values[1:], strict=True))
        assert rounds_delta(0.3, 6, 1.8) == 0.0
