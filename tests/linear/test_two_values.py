"""Numeric columns with two values, told by what is released about them."""

import numpy as np
import pandas as pd
import pytest

import dpstats
from dpstats.linear.prepare import Prepared
from dpstats.regression import logit


def prepared(monkeypatch, z, eps=2.0, **given) -> Prepared:
    """What is released before the rounds, beside a normal column and answers that z has no part in."""
    seen = []
    rng = np.random.default_rng(0)
    results = logit.glm_results
    monkeypatch.setattr(logit, "glm_results", lambda *a: seen.append(a[2].prepared) or results(*a))
    x, y = rng.standard_normal(len(z)), (rng.random(len(z)) < 0.3) * 1.0
    dpstats.logit("y ~ x + z", pd.DataFrame({"x": x, "z": z, "y": y}), eps=eps, seed=1, **given)
    return seen[0]


@pytest.mark.parametrize("given", [{}, {"bounds": {"z": (-9, 200)}}])
@pytest.mark.parametrize(
    "most, other, share",
    [
        (0, 1, 0.1),
        (1, 0, 0.1),
        (1, 2, 0.1),
        (2, 1, 0.1),
        (-1, 1, 0.2),
        (1, -1, 0.2),
        (100, 0, 0.1),
        (0, 50, 0.3),
        (0, -1, 0.1),
        (0, -5, 0.1),
        (1, 5, 0.1),
        (0.1, 0.3, 0.1),
        (5, 1, 0.1),
        (0, 1, 0.5),
    ],
)
@pytest.mark.slow
def test_two_values_and_how_many_rows_have_them(monkeypatch, most, other, share, given):
    z = np.where(np.random.default_rng(1).random(6000) < share, other, most).astype(float)
    found = prepared(monkeypatch, z, **given)
    means = found.twos[0] * found.affine.scale + found.affine.loc
    order = np.argsort(means[:, 2]) if most < other else np.argsort(-means[:, 2])
    # the distance is known within an octave
    assert means[order, 2] == pytest.approx([most, other], abs=0.25 * abs(other - most))
    assert found.twos[1][order] == pytest.approx([1 - share, share], abs=0.03)
    # (the other column is at its location)
    assert np.allclose(means[:, 0], 1) and np.allclose(means[:, 1], found.affine.loc[1])


@pytest.mark.parametrize("name", ["normal", "three", "spread"])
def test_columns_with_more_values_have_no_groups(monkeypatch, name):
    rng = np.random.default_rng(2)
    z = {
        "normal": rng.standard_normal(6000),
        "three": rng.choice([0.0, 1.0, 2.0], 6000, p=[0.8, 0.15, 0.05]),
        "spread": np.where(rng.random(6000) < 0.1, rng.lognormal(2, 1, 6000), 0.0),
    }[name]
    assert len(prepared(monkeypatch, z).twos[1]) == 0
