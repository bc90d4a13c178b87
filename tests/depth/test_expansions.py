from fractions import Fraction

import numpy as np
import pytest

from dpstats.depth import _expansions as e


def value(h, m):
    return sum((Fraction(float(v)) for v in h[:m]), Fraction(0))


def numbers(rng, size):
    return np.ldexp(rng.integers(-(2**53), 2**53, size).astype(float), rng.integers(-60, 60, size))


def test_two_term_operations_are_exact():
    rng = np.random.default_rng(0)
    for a, b in numbers(rng, (200, 2)):
        for found, exact in (
            (e.two_sum(a, b), Fraction(a) + Fraction(b)),
            (e.two_diff(a, b), Fraction(a) - Fraction(b)),
            (e.two_product(a, b), Fraction(a) * Fraction(b)),
        ):
            assert Fraction(found[0]) + Fraction(found[1]) == exact
            assert found[0] == float(exact)


@pytest.mark.slow
def test_sums_and_products_of_expansions_are_exact():
    rng = np.random.default_rng(1)
    for _ in range(100):
        a, b, c, d = numbers(rng, 4)
        f = np.array(e.two_product(a, b)[::-1])
        g = np.array(e.two_diff(c, a)[::-1])
        h = np.empty(4)
        assert value(h, e.add(f, 2, g, 2, h)) == value(f, 2) + value(g, 2)
        assert value(h, e.scale(f, 2, d, h)) == value(f, 2) * Fraction(float(d))
        product = np.empty(8)
        m = e.multiply2(f, 2, g[1], g[0], product)
        assert value(product, m) == value(f, 2) * value(g, 2)
        assert e.sign(product, m) == np.sign(float(value(product, m)))
        assert e.estimate(product, m) == np.float64(float(value(product, m))).item() or m > 2


def test_total_cancellation_has_sign_zero():
    f = np.array([2.0**-60, 1.0])
    h = np.empty(4)
    m = e.add(f, 2, -f, 2, h)
    assert e.sign(h, m) == 0
    assert e.sign(h, 0) == 0
