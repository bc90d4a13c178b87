"""What the table says of limits and shrinkage."""

import numpy as np
import pandas as pd
import pytest

import dpstats
from dpstats.linear.results import Inference, r_squared, stops_short


def test_note_of_what_is_left():
    assert stops_short(np.array([0.0, 0.004]), "0", "formula") == ()
    (note,) = stops_short(np.array([0.0, 0.25, 0.01]), "0", "formula")
    assert note.startswith("The fit is shrunk towards 0 along 2 of 3 directions, by at most 25 %:")
    assert "cov_type='bootstrap'" in note
    (note,) = stops_short(np.array([0.25]), "least squares", "bootstrap")
    assert note.endswith("the bootstrap corrects for it.")
    (note,) = stops_short(np.array([1.0]), "0", "bootstrap")
    assert note.endswith("by at most 100 %: the bootstrap corrects for it, as far as 95 %.")
    assert "too much for the standard errors" in stops_short(np.array([0.6]), "0", "formula")[0]


def hidden(n=4000, seed=0):
    """A level so rare that the noise hides it."""
    g = np.random.default_rng(seed)
    data = pd.DataFrame({"a": g.standard_normal(n), "d": pd.array(g.random(n) < 0.005, dtype="boolean")})
    return data.assign(y=1 + data["a"] + data["d"] + g.standard_normal(n))


@pytest.mark.parametrize("name, limit", [
    ("ols", "A row counts as if its residual were at most"),
    ("adassp", "Responses are moved into ["),
    ("boosted_adassp", "Residuals beyond"),
    ("huber", "Residuals beyond"),
])  # fmt: skip
def test_every_table_names_its_limits(name, limit):
    fit = getattr(dpstats, name)("y ~ a + d", hidden(), eps=1, seed=1)
    assert any(note.startswith(limit) for note in fit.notes)
    text = fit.summary().as_text()
    assert limit in text


@pytest.mark.parametrize("name", ["adassp", "boosted_adassp"])
def test_shrinkage_is_named_and_corrected(name):
    formula, corrected = (
        getattr(dpstats, name)("y ~ a + d", hidden(), eps=0.5, seed=1, cov_type=kind)
        for kind in ("formula", "bootstrap")
    )
    assert any("The fit is shrunk towards 0 along" in note for note in formula.notes)
    assert any("the bootstrap corrects for it" in note for note in corrected.notes)
    assert corrected.bse["d[T.True]"] > formula.bse["d[T.True]"]


def test_noise_explains_nothing():
    """What the noise of the coefficients adds to the explained variance on average is taken off."""
    u, gram, noise = np.array([0.6, 0.8]), np.diag([1.0, 2.0]), 0.3
    explained = 0.36 + 2 * 0.64 - noise
    inference = Inference(np.eye(2), noise, gram, (), None)
    assert r_squared(None, u, inference, 0.5, False) == pytest.approx(explained / (explained + 0.5))
    assert r_squared(None, u / 10, inference, 0.5, False) == 0
