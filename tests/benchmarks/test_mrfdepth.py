"""The exact depths that decide between mrfDepth and dpstats, and what the committed comparison says."""

import csv
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from depth import mrfdepth

FOLDER = Path(mrfdepth.__file__).parent


def committed(name):
    with open(FOLDER / name, newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


@pytest.mark.parametrize("d", [1, 2, 3])
def test_fewest_is_the_least_over_all_directions(d):
    """Of vectors with entries -1, 0, 1 every pattern of signs is that of a direction with entries up to 4."""
    directions = np.array([v for v in product(range(-4, 5), repeat=d) if any(v)])
    rng = np.random.default_rng(d)
    for n in (*range(6), 9, 15):
        for _ in range(4):
            vectors = rng.integers(-1, 2, (n, d))
            counted = (vectors @ directions.T >= 0).sum(axis=0).min()
            assert mrfdepth.fewest([tuple(u) for u in vectors.tolist()]) == counted


def test_depths_known_by_hand():
    third = Fraction(1, 3)
    square = [[0, 0], [third, 0], [0, third], [third, third]]
    square = [[Fraction(v) for v in row] for row in square]
    assert mrfdepth.exact_depth("halfspace", square, [third / 2, third / 2]) == 2
    assert mrfdepth.exact_depth("halfspace", square, [third, third / 2]) == 1
    assert mrfdepth.exact_depth("halfspace", square, [third * 2, third]) == 0
    line = [[Fraction(x), 1 + third * x] for x in range(5)]
    assert mrfdepth.exact_depth("regression", line, [Fraction(1), third]) == 5
    assert mrfdepth.exact_depth("regression", line, [Fraction(1), -third]) == 1
    assert mrfdepth.exact_depth("regression", line, [Fraction(2), third]) == 0


@pytest.mark.slow
def test_a_sample_of_the_study_is_exact():
    seen = set()
    for call, kind, data, points in mrfdepth.cases():
        if (call, len(data[0]), kind) in seen or len(data[0]) == 4:
            continue
        seen.add((call, len(data[0]), kind))
        found = mrfdepth.ours(call, mrfdepth.as_doubles(data), mrfdepth.as_doubles(points[:3]))
        if call == "halfspace" or kind not in ("near ties", "outlier"):  # residuals below rtol
            assert found == [mrfdepth.exact_depth(call, data, point) for point in points[:3]]
    assert len(seen) == 4 * len(mrfdepth.KINDS)


def test_committed_table():
    table = [
        {k: v if k in ("function", "kind") else int(v) for k, v in row.items()}
        for row in committed("mrfdepth.csv")
    ]
    assert [row["kind"] for row in table] == 4 * list(mrfdepth.KINDS)
    for row in table:
        parts = [row[f"exact with {who}"] for who in ("dpstats", "mrfDepth", "neither")]
        assert sum(parts) == row["differ"] <= row["cases"] - row["no value"]
        assert row["cases"] == row["dpstats exact"] + row["dpstats else exact with rtol=0"]
    assert {row["outcome"] for row in committed("mrfdepth_tests.csv")} == {"passed"}
