"""Whether a run is worse: exact laws, the error rate, what is found, and a broken variant that the test would
catch."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from suite import check


def scores(rng, runs):
    """Synthetic single runs: 4 budgets, skewed noise, some failures, ties."""
    rows = [
        {
            "data": "d",
            "columns": "all",
            "method": f"m{m}",
            "eps": eps,
            "seed": s,
            "r2": round(0.9 - 0.02 * rng.exponential(), 3),
        }
        for m in range(3)
        for eps in ("0.5", "1", "ln 3", "3")
        for s in range(runs)
    ]
    frame = pd.DataFrame(rows)
    frame.loc[rng.random(len(frame)) < 0.1, "r2"] = np.nan
    return frame


@pytest.mark.parametrize(
    "values", [[1.0, 2, 3, 4, 5, 6], [1.0, 1, 2, 2, 2, 5], [0.0, 0, 0, 0, -np.inf, -np.inf]]
)
def test_rank_law_is_that_of_all_subsets(values):
    ranks, law = check.rank_law(np.array(values), 3)
    sums = [sum(ranks[list(chosen)]) for chosen in itertools.combinations(range(6), 3)]
    counted = np.bincount(sums, minlength=len(law)) / len(sums)
    np.testing.assert_allclose(law, counted, atol=1e-15)


@pytest.mark.parametrize("sizes", [(3, 3), (2, 4), (4, 2)])
def test_p_value_is_the_share_of_orders(sizes):
    rng = np.random.default_rng(0)
    old, new = rng.normal(size=sizes[0]), rng.normal(size=sizes[1])
    both = np.concatenate([old, new])
    as_low = [
        sum(pd.Series(both).rank()[list(chosen)]) <= sum(pd.Series(both).rank()[sizes[0] :])
        for chosen in itertools.combinations(range(6), sizes[1])
    ]
    assert check.lower([(old, new)]) == pytest.approx(np.mean(as_low), abs=1e-12)


def p_values(function):
    rng = np.random.default_rng(20261121)
    return np.array([p for _ in range(100) for _, p, _ in function(scores(rng, 10), scores(rng, 5))])


def share_below(p, alpha):
    return np.mean(p <= alpha)


# more of the 300 p-values at most alpha than this share has probability 1e-6
LIMITS = {alpha: binom.isf(1e-6, 300, alpha) / 300 for alpha in (0.05, 0.01)}


@pytest.mark.slow
def test_error_rate():
    p = p_values(check.accuracy)
    assert all(share_below(p, alpha) <= limit for alpha, limit in LIMITS.items())


@pytest.mark.slow
def test_a_check_that_drops_failures_of_the_old_run_only_is_caught():
    def broken(old, new):
        return check.accuracy(old.dropna(subset="r2"), new)

    p = p_values(broken)
    assert any(share_below(p, alpha) > limit for alpha, limit in LIMITS.items())


def test_a_loss_is_found_and_named():
    rng = np.random.default_rng(1)
    old, new = scores(rng, 10), scores(rng, 5)
    new.loc[new["method"] == "m1", "r2"] -= 0.05
    found = check.alarms(check.accuracy(old, new))
    assert len(found) == 1
    assert found[0].startswith("accuracy of m1 on d (all): median R2 lower by up to 0.0")


def test_more_failures_are_found():
    rng = np.random.default_rng(2)
    old, new = scores(rng, 10), scores(rng, 5)
    new.loc[new["method"] == "m2", "r2"] = np.nan
    assert [line.split(" on ")[0] for line in check.alarms(check.accuracy(old, new))] == ["accuracy of m2"]


def test_equal_runs_and_better_runs_raise_nothing():
    rng = np.random.default_rng(3)
    old = scores(rng, 10)
    assert check.alarms(check.accuracy(old, old)) == []
    assert check.alarms(check.accuracy(old, old.assign(r2=old["r2"] + 0.1))) == []


def coverage(hits, width, sets=400):
    return pd.DataFrame([{
        "estimator": "e", "design": "d", "rows": 10, "coefficient": "x", "intervals": sets, "covered": hits,
        "coverage": hits / sets,
        "width_q25": 0.9 * width, "width": width, "width_q75": 1.1 * width,
    }])  # fmt: skip


@pytest.mark.parametrize(
    ("hits", "width", "what"),
    [
        (380, 1.0, []),
        (375, 1.01, []),
        (340, 1.0, ["coverage"]),
        (380, 1.2, ["width"]),
        (400, 0.5, []),
        (330, 1.3, ["coverage", "width"]),
    ],
)
def test_coverage_and_width(hits, width, what):
    found = check.alarms(check.validity(coverage(380, 1.0), coverage(hits, width)))
    assert sorted(line.split()[0] for line in found) == what


def test_widths_of_few_or_infinite_intervals_are_not_compared():
    for sets, width in ((10, 1.0), (400, np.inf)):
        tests = check.validity(coverage(5, 1.0, 10), coverage(5, width, sets))
        assert [what.split()[0] for what, _, _ in tests] == ["coverage"]


def times(ratio):
    rows = [
        {"table": "rows", "method": m, "rows": 10, "columns": 2, "over_statsmodels": r, "run": "r"}
        for m, r in (("ols", ratio), ("X.T @ X", 9.0))
    ]
    return pd.DataFrame(rows)


def runs(processor, load=0.2):
    return pd.DataFrame({"run": ["other", "r"], "processor": ["another", processor], "load": [9.0, load]})


@pytest.mark.parametrize(
    ("processor", "load", "ratio", "alarms"),
    [("one", 0.1, 1.2, 0), ("one", 0.1, 2.0, 1), ("one", 5.0, 2.0, 0), ("three", 0.1, 2.0, 0)],
)
def test_speed_is_compared_on_the_same_quiet_processor_only(processor, load, ratio, alarms):
    old = {"runs.csv": runs("one"), "speed.csv": times(1.0)}
    new = {"runs.csv": runs(processor, load), "speed.csv": times(ratio)}
    found, tests = check.compare(lambda n: new.get(n, pd.DataFrame()), lambda n: old.get(n, pd.DataFrame()))
    assert (len(found), tests) == (alarms, 0)
