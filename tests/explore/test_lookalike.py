"""Laws have the moments that describe them, and tables the correlations."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpstats import ParameterError
from dpstats.explore.laws import LAWS, described, standardized
from dpstats.explore.lookalike import lookalike

CASES = {
    "normal": (("normal", 3, 2), 3, 2),
    "lognormal": (("lognormal", 3, 2), 3, 2),
    "gamma": (("gamma", 3, 2), 3, 2),
    "exponential": (("exponential", 3), 3, 3),
    "laplace": (("laplace", 3, 2), 3, 2),
    "t": (("t", 3, 2, 7), 3, 2),
    "uniform": (("uniform", 0, 6), 3, np.sqrt(3)),
    "beta": (("beta", 3, 1, 0, 10), 3, 1),
    "poisson": (("poisson", 3), 3, np.sqrt(3)),
    "negbinomial": (("negbinomial", 3, 2), 3, 2),
    "bernoulli": (("bernoulli", 0.3), 0.3, np.sqrt(0.21)),
    "integers": (("integers", 1, 6), 3.5, np.sqrt(35 / 12)),
}


def drawn(like, correlation=None, n=200_000):
    return lookalike(like, correlation).draw(n, np.random.default_rng(5))


def test_every_law_is_tried():
    assert set(CASES) == set(LAWS)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.slow
def test_mean_and_sd(name):
    description, mean, sd = CASES[name]
    values = drawn({"x": description})["x"]
    # false alarm 1e-6 for the mean
    assert abs(values.mean() - mean) < 4.9 * sd / np.sqrt(len(values))
    assert values.std() == pytest.approx(sd, rel=0.03)


@pytest.mark.parametrize("name", ["normal", "lognormal", "gamma", "t", "laplace"])
def test_what_is_cut_off_has_them_too(name):
    law = described("x", (name, {"mean": 3, "sd": 1.5, "low": 0.5, "high": 9}))
    assert standardized(law) == pytest.approx((3, 1.5), rel=1e-4)
    values = law(np.array([0.0, 0.5, 1.0]))
    assert values[0] >= 0.5 and values[2] <= 9


def test_quantiles_shares_and_levels():
    frame = drawn({
        "q": ("quantiles", {0: 1, 0.5: 2, 1: 5}), "s": {1: 0.25, 4: 0.75}, "l": {"b": 0.2, "a": 0.8},
    })  # fmt: skip
    assert frame["q"].quantile([0, 0.25, 0.5, 0.75, 1]).tolist() == pytest.approx(
        [1, 1.5, 2, 3.5, 5], abs=0.02
    )
    assert (frame["s"] == 4).mean() == pytest.approx(0.75, abs=0.005)
    assert list(frame["l"].cat.categories) == ["b", "a"]
    assert (frame["l"] == "a").mean() == pytest.approx(0.8, abs=0.005)


@pytest.mark.slow
def test_correlations_are_those_of_the_columns():
    like = {
        "a": ("lognormal", 1, 1), "b": ("bernoulli", 0.3), "c": {"low": 0.3, "mid": 0.4, "high": 0.3},
        "d": ("poisson", 2), "e": "uniform",
    }  # fmt: skip
    wanted = {("a", "b"): 0.3, ("c", "a"): -0.4, ("d", "e"): 0.6, ("b", "e"): 0.2}
    frame = drawn(like, wanted)
    frame["c"] = frame["c"].cat.codes
    found = frame.corr()
    for (one, other), r in wanted.items():
        assert found.loc[one, other] == pytest.approx(r, abs=0.02)
    assert found.loc["d", "a"] == pytest.approx(0, abs=0.02)


def test_a_correlation_that_no_table_has():
    with pytest.raises(ParameterError, match="correlation must be between -0.50 and 1.00 for 'a' and 'b'"):
        lookalike({"a": ("lognormal", 1, 1), "b": ("lognormal", 1, 1)}, {("a", "b"): -0.9})
    signs = {("a", "b"): 0.9, ("b", "c"): 0.9, ("a", "c"): -0.9}
    with pytest.raises(ParameterError, match="contradict one another"):
        lookalike(dict.fromkeys("abc", "normal"), signs)


def test_numbers_draw_the_same_rows_again():
    frame = drawn({"x": "normal", "g": {"a": 0.5, "b": 0.5}}, n=50)
    pd.testing.assert_frame_equal(frame, drawn({"x": "normal", "g": {"a": 0.5, "b": 0.5}}, n=50))
    table = lookalike(pd.DataFrame({"x": [1.0, 2.0, 3.0], "g": ["u", "v", "u"]}))
    rows = table.draw(1_000, np.random.default_rng(0))
    assert set(zip(rows["x"], rows["g"], strict=True)) == {(1.0, "u"), (2.0, "v"), (3.0, "u")}
    assert stats.chisquare(rows["x"].value_counts()).pvalue > 1e-6


@pytest.mark.parametrize(
    ("description", "message"),
    [
        (3, "the name of a law, a tuple"),
        ("cauchy", "of a law among"),
        ((), "the name of a law, a tuple"),
        ("lognormal", "given by 'lognormal' and mean, sd"),
        (("normal", 1, 2, 3), "given by 'normal' and mean, sd"),
        (("normal", {"mu": 1}), "given by 'normal' and mean, sd"),
        (("normal", "a", 1), "described by finite numbers"),
        (("normal", 0, -1), "with sd > 0"),
        (("negbinomial", 4, 1), "0 < mean < sd"),
        (("gamma", {"mean": 3, "sd": 1, "low": 4}), "such a mean and sd between 4 and inf"),
        (("normal", {"mean": 0.5, "sd": 3, "low": 0, "high": 1}), "such a mean and sd between 0 and 1"),
        (("quantiles", {0: 1}), "described as in"),
        (("quantiles", {0: 2, 1: 1}), "described as in"),
        (("quantiles", {0.1: 2, 1: 3}), "described as in"),
        ({"a": 0.5}, "a dictionary of levels"),
        ({"a": 0.5, 1: 0.5}, "a dictionary of levels"),
        ({"a": 1.0}, "a dictionary of levels"),
        ({"a": 0.5, "b": 0.4}, "which add up to 1, got 0.9"),
    ],
)
def test_descriptions_that_are_refused(description, message):
    with pytest.raises(ParameterError, match="like: column 'x' must be") as refused:
        lookalike({"x": description})
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("correlation", "message"),
    [
        ([1], "a dictionary such as"),
        ({"x": 0.5}, "pairs of different columns"),
        ({("x", "x"): 0.5}, "pairs of different columns"),
        ({("x", "w"): 0.5}, "pairs of different columns"),
        ({("x", "z"): 2}, "a dictionary of numbers in"),
    ],
)
def test_correlations_that_are_refused(correlation, message):
    with pytest.raises(ParameterError, match=message):
        lookalike({"x": "normal", "z": "normal"}, correlation)


FIFTHS = [
    {"share": 0.25, "columns": {"y": ("uniform", 0, 1), "x": {1: 1.0}, "z": {"a": 0.5, "b": 0.5}}},
    {
        "share": 0.75,
        "columns": {"z": {"b": 0.2, "c": 0.8}, "y": ("normal", 5, 1), "x": ("normal", 2, 1)},
        "correlation": {("x", "y"): 0.8},
    },
]


def test_groups_have_their_shares_laws_and_correlations():
    drawn = lookalike(FIFTHS).draw(200_000, np.random.default_rng(3))
    first = drawn["y"] < 1
    assert list(drawn) == ["y", "x", "z"]
    assert first.mean() == pytest.approx(0.25, abs=0.01)
    assert set(drawn["x"][first]) >= {1.0}
    assert list(drawn["z"].cat.categories) == ["a", "b", "c"]
    part = drawn[drawn["z"] == "c"]
    assert (len(part) / 200_000, part["x"].mean()) == pytest.approx((0.6, 2.0), abs=0.01)
    assert part[["x", "y"]].corr().iloc[0, 1] == pytest.approx(0.8, abs=0.01)
    few = lookalike(FIFTHS).draw(1, np.random.default_rng(0))
    assert list(few["z"].cat.categories) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("like", "correlation", "message"),
    [
        ([], None, "a list of groups such as"),
        ([{"share": 1.0}], None, "a list of groups such as"),
        ([{"share": 1.0, "columns": {"x": "normal"}, "rows": 3}], None, "a list of groups such as"),
        ([{"share": 0.5, "columns": {"x": "normal"}}], None, "shares above 0 that add up to 1"),
        ([{"share": "1", "columns": {"x": "normal"}}], None, "shares above 0 that add up to 1"),
        ([{"share": 1.0, "columns": {"x": "cauchy"}}], None, r"like\[0\]: column 'x' must be of a law"),
        ([{"share": 1.0, "columns": 3}], None, r"like\[0\] must be with a dictionary of columns"),
        ([{"share": 1.0, "columns": {"x": {1: 1.0}}}], None, "no column has one value alone, got 'x'"),
        (
            [{"share": 1.0, "columns": {"x": "normal", "y": "normal"}, "correlation": {("x", "y"): 3}}],
            None,
            r"like\[0\]: correlation must be a dictionary of numbers",
        ),
        (FIFTHS, {("x", "y"): 0.5}, "each group has its own"),
        ([FIFTHS[0], {"share": 0.75, "columns": {"x": "normal"}}], None, "with the columns of like"),
        (
            [{"share": 0.5, "columns": {"x": "normal"}}, {"share": 0.5, "columns": {"x": {"a": 1.0}}}],
            None,
            "levels in all or in none",
        ),
    ],
)
def test_groups_that_are_refused(like, correlation, message):
    with pytest.raises(ParameterError, match=message):
        lookalike(like, correlation)


def correlation_of(columns, correlation):
    return lookalike(columns, correlation).draw(100_000, np.random.default_rng(0)).corr()


def test_a_correlation_that_was_rounded_beyond_what_is_possible_is_the_largest():
    for share in (0.2, 1 / 3):
        dummies = {name: {0: 1 - share, 1: share} for name in "ab"}
        least = -share / (1 - share)
        found = correlation_of(dummies, {("a", "b"): least - 0.004})
        assert found.iloc[0, 1] == pytest.approx(least, abs=0.01)
        with pytest.raises(ParameterError, match="whose laws allow no other"):
            lookalike(dummies, {("a", "b"): least - 0.02})
    rare = {"a": {0: 0.9999, 1: 0.0001}, "b": "normal"}
    with pytest.raises(ParameterError, match="whose laws allow no other"):
        lookalike(rare, {("a", "b"): 0.05})


def test_a_constant_column_of_a_group_leaves_other_correlations_alone():
    columns = {"x": "normal", "y": "normal", "z": {1: 1.0}}
    other = {"x": "normal", "y": "normal", "z": "normal"}
    for none in (0.0, 0.004):
        correlation = {("x", "y"): -0.9, ("x", "z"): none, ("y", "z"): none}
        groups = [
            {"share": 0.9999, "columns": columns, "correlation": correlation},
            {"share": 0.0001, "columns": other},
        ]
        assert correlation_of(groups, None).loc["x", "y"] == pytest.approx(-0.9, abs=0.01)
    with pytest.raises(ParameterError, match=r"like\[0\]: correlation must be between 0.00 and 0.00"):
        lookalike([{"share": 1.0, "columns": columns, "correlation": {("x", "z"): 0.1}}])
