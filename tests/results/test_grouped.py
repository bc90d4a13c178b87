"""The table of the released estimates of groups."""

import pickle

import numpy as np
import pandas as pd
import pytest

import dpstats
from dpstats.privacy.guarantee import Guarantee
from dpstats.results.grouped import GroupedResults

LEVELS = ["a", "b", "c", "d"]


def frame(n=1200, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b", "c", "undeclared"], n)
    return pd.DataFrame({"y": rng.normal(size=n) + 10 * (group == "b"), "x": rng.normal(size=n), "g": group})


DATA = frame()


def median(data=DATA, **more):
    call = {"eps": 5, "alpha": None, "by": "g", "levels": {"g": LEVELS}} | more
    return dpstats.median("y ~ 1", data, **call)


@pytest.mark.parametrize("alpha", [None, 0.2])
def test_tidy_equals_the_tables_of_the_groups(alpha):
    rng = np.random.default_rng(0)
    data = {"x": rng.normal(size=8000), "y": rng.normal(size=8000), "g": np.repeat(LEVELS, 2000)}
    fits = dpstats.ols("y ~ x", data, eps=20, by="g", levels={"g": LEVELS}, seed=1)
    table = fits.tidy(alpha)
    expected = pd.concat([fits[level].tidy(alpha).assign(g=level) for level in LEVELS])
    assert table["conf.low"].notna().all()
    assert table["g"].tolist() == list(np.repeat(LEVELS, 2))
    for column in ("term", "estimate", "conf.low", "conf.high"):
        assert table[column].tolist() == expected[column].tolist()


def test_summary_shows_the_first_lines_and_counts_the_rest():
    data = DATA.assign(g=np.arange(len(DATA)) % 100)
    text = str(median(data, levels={"g": range(100)}))
    assert "60 more lines" in text and "39: y" in text and "40: y" not in text
    assert max(map(len, text.splitlines())) <= 78
    assert "<table" in median()._repr_html_()


def test_grouped_results_are_values():
    fits = median(seed=1)
    again = pickle.loads(pickle.dumps(fits))
    assert again.params.equals(fits.params) and again.guarantee == fits.guarantee
    assert again.to_dict()["groups"][0]["g"] == "a"
    with pytest.raises(AttributeError):
        fits.by = "h"
    with pytest.raises(TypeError):
        fits.results["a"] = None


def test_a_table_without_any_estimate():
    guarantee = Guarantee(1, 1e-6, "add-remove", "approximate", scope="the groups are disjoint.")
    fits = GroupedResults("Median", "y ~ 1", "g", ("a",), {}, {"a": "the test failed."}, guarantee)
    assert "No estimate for a" in str(fits) and "disjoint" in str(fits)
    assert fits.tidy().empty


def test_a_group_without_an_estimate_raises_its_reason_and_an_unknown_one_a_key_error():
    guarantee = Guarantee(1, 1e-6, "add-remove", "approximate")
    fits = GroupedResults("Median", "y ~ 1", "g", ("a", "b"), {}, {"b": "of b.", "a": "of a."}, guarantee)
    assert list(fits.failed) == ["a", "b"] and len(fits) == 2
    with pytest.raises(dpstats.ReleaseFailed, match="of a") as failure:
        fits["a"]
    assert failure.value.guarantee == guarantee
    for unknown in ("c", ["a"], None):
        with pytest.raises(KeyError, match="not a declared level of 'g'"):
            fits[unknown]
