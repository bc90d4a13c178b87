"""All noise that is drawn during a release, beside its guarantee."""

import math

import numpy as np
import pytest

from dpstats.linear import family, glm_kernels, score_kernels, unit_kernels
from dpstats.mechanisms import _kernels, noise
from dpstats.privacy.conversions import gdp_mu


@pytest.fixture
def spent(monkeypatch):
    """``mu^2`` actually spent, from each draw of noise and the true sensitivity behind it."""
    behind, squares = [], []

    def watch(module, name, sensitivity):
        kernel = getattr(module, name)

        def watched(*arguments):
            behind.append(sensitivity(arguments))
            return kernel(*arguments)

        monkeypatch.setattr(module, name, watched)

    watch(_kernels, "clipped_gram", lambda a: a[8])
    watch(glm_kernels, "score", lambda a: a[5])
    watch(glm_kernels, "excess", lambda a: (a[6] - 1) * a[4])
    watch(glm_kernels, "far_rows", lambda a: math.hypot(a[4], a[7]))
    watch(glm_kernels, "information", lambda a: min(a[6], a[5] ** 2) if a[8] else a[6])
    watch(glm_kernels, "part_gram", lambda a: a[8] ** 2)
    watch(glm_kernels, "part_octaves", lambda a: 1.0)
    watch(glm_kernels, "part_squares", lambda a: a[6])
    watch(glm_kernels, "deviances", lambda a: math.sqrt(2))
    watch(glm_kernels, "weights", lambda a: math.hypot(a[6], a[7]))
    watch(score_kernels, "product_gradient", lambda a: a[4])
    watch(score_kernels, "product_excess", lambda a: a[4])
    watch(score_kernels, "product_gram", lambda a: a[4] ** 2)
    watch(score_kernels, "inner_gram", lambda a: a[5] ** 2)
    watch(score_kernels, "product_octaves", lambda a: 1.0)
    watch(score_kernels, "residual_octaves", lambda a: 1.0)
    watch(score_kernels, "residual_moments", lambda a: a[3])
    watch(score_kernels, "outside_score", lambda a: 1.0)
    watch(score_kernels, "psi_moments", lambda a: math.sqrt(2))
    watch(unit_kernels, "gram", lambda a: a[8])
    real = noise._add

    def add(values, law, sensitivity, budget, rng):
        assert law == "gaussian"
        size = np.size(values)
        if behind:
            need = behind.pop()
            assert not behind
        elif size in (1, 3, family._CELLS, family._EXPOSURES):
            # the rows, the events, the levels of one factor, counts and exposures by size
            need = 1.0
        elif size % _kernels.OCTAVES == 0:
            need = math.sqrt(size // _kernels.OCTAVES)
        else:
            # 13 comparisons of a group of columns, each of which moves by 1/2
            assert size % _kernels.GRID_BITS == 0
            need = math.sqrt(size) / 2
        squares.append((need * budget / sensitivity) ** 2)
        return real(values, law, sensitivity, budget, rng)

    monkeypatch.setattr(noise, "_add", add)
    return lambda: sum(squares)


@pytest.fixture
def adds_up(spent):
    """A check that the noise of a fit is what its guarantee takes."""

    def check(fit):
        mu2, used = gdp_mu(fit.guarantee.eps, fit.guarantee.delta) ** 2, spent()
        assert sum(s.mu**2 for s in fit.guarantee.spends) == pytest.approx(mu2, rel=1e-9)
        # a thousandth less than planned, for the rounding of sums
        assert 0.995 * mu2 < used <= mu2 * (1 + 1e-9)

    return check
