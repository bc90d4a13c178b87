"""How a budget was divided: shares that add up, and the numbers by which they do."""

import math
import re

import numpy as np
import pytest

import dpstats
from dpstats.privacy.conversions import gdp_eps
from dpstats.privacy.guarantee import Guarantee, Spend
from dpstats.results.spends import division, spends_table
from dpstats.results.table import promise


def of(eps, *spends):
    return Guarantee(eps, 1e-6, "add-remove", "approximate", spends)


def gaussian(mu, name="a sum"):
    return Spend(name, "Gaussian noise", gdp_eps(mu, 1e-6), 1e-6, mu=mu)


def test_gaussian_steps_share_mu_squared_whose_eps_add_up_to_more_or_less():
    for mu in (0.3, 3e-6):
        guarantee = of(gdp_eps(mu, 1e-6), gaussian(0.6 * mu), gaussian(0.8 * mu, "another"))
        assert (sum(s.eps for s in guarantee.spends) > guarantee.eps) == (mu > 0.1)
        parts, units, words = division(guarantee)
        np.testing.assert_allclose(parts, [0.36, 0.64])
        assert units == ("mu",) and "mu squared" in words
        assert list(promise(guarantee))[-1] == words


def test_pure_steps_share_eps_and_need_no_words():
    guarantee = of(1.0, Spend("count", "Laplace noise", 0.1), Spend("median", "exponential", 0.9, rho=0.1))
    assert division(guarantee) == ((0.1, 0.9), ("eps",), None)


def test_concentrated_steps_share_rho():
    steps = [Spend("a median", "exponential mechanism", eps, rho=eps**2 / 8) for eps in (0.6, 0.8)]
    parts, units, _ = division(of(1.2, *steps))
    np.testing.assert_allclose(parts, [0.36, 0.64])
    assert units == ("rho",)


def test_gaussian_steps_before_others_divide_what_these_leave():
    guarantee = of(1.0, gaussian(0.3), gaussian(0.4), Spend("the rest", "exponential mechanism", 0.8, 5e-7))
    parts, units, words = division(guarantee)
    np.testing.assert_allclose(parts, [0.2 * 0.36, 0.2 * 0.64, 0.8])
    assert units == ("eps", "mu") and "mu squared" in words
    table = spends_table(guarantee)
    assert table.header == ("Step", "Mechanism", "share", "eps", "delta", "mu")
    assert [row[3:] for row in table.rows] == [("", "", "0.3"), ("", "", "0.4"), ("0.8", "5e-07", "")]


def test_steps_that_cost_nothing_have_no_share():
    guarantee = of(0.0, Spend("nothing", "", 0.0), Spend("nothing", "", 0.0))
    assert all(math.isnan(part) for part in division(guarantee)[0])
    assert spends_table(guarantee).rows == (("nothing (2 times)", "", ""),)
    assert division(of(1.0)) == ((), ("eps",), None) and spends_table(of(1.0)) is None


@pytest.mark.parametrize("seed", range(20))
def test_printed_shares_add_up_to_100(seed):
    sizes = np.random.default_rng(seed).lognormal(0, 2, size=seed + 1)
    table = spends_table(of(1.0, *(Spend(str(i), "", size) for i, size in enumerate(sizes))))
    tenths = [round(10 * float(row[2].removesuffix(" %"))) for row in table.rows]
    assert sum(tenths) == 1000
    np.testing.assert_allclose(np.array(tenths) / 1000, sizes / sizes.sum(), atol=1e-3)


def test_equal_steps_in_a_row_are_one_line_with_what_they_add_together():
    rounds = (gaussian(0.1, "round"),) * 16
    (row,) = spends_table(of(2.0, *rounds)).rows
    assert row == ("round (16 times)", "Gaussian noise", "100.0 %", "0.4")
    eps = (Spend("round", "Laplace noise", 0.25),) * 4
    assert spends_table(of(1.0, *eps)).rows == (("round (4 times)", "Laplace noise", "100.0 %", "1"),)


@pytest.mark.parametrize("name", ["tukey_em", "medsweep", "median"])
def test_the_columns_of_a_release_add_up_to_the_promise(name):
    """Whichever way an estimator composes: what the lines show comes to the whole, in eps where it is eps."""
    g = np.random.default_rng(0)
    data = {"y": g.standard_normal(4000), "x": g.standard_normal(4000)}
    fit = getattr(dpstats, name)("y ~ 1" if name == "median" else "y ~ x", data, eps=2, seed=1)
    parts, units, _ = division(fit.guarantee)
    assert sum(parts) == pytest.approx(1)
    if units == ("eps",):
        assert sum(s.eps for s in fit.guarantee.spends) == pytest.approx(fit.guarantee.eps)
    printed = re.findall(r"(\d+\.\d) %", str(fit.summary()).split("Step  ")[1])
    assert sum(round(10 * float(share)) for share in printed) == 1000
