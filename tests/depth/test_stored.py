"""Values computed with mrfDepth, ddalpha and an independent brute force (tests/reference/depth/README.md)."""

import json
from pathlib import Path

import numpy as np
import pytest

from dpstats import depth

STORED = Path(__file__).parents[1] / "reference" / "depth"


def cases(family):
    found = json.loads((STORED / f"{family}.json").read_text())
    return [pytest.param(c, id=c["id"]) for c in found]


def queries(case):
    x = np.array(case["x"], dtype=float).reshape(len(case["x"]), -1)
    z = np.vstack(
        [x[: case["n_data_queries"]], np.array(case["z_extra"], dtype=float).reshape(-1, x.shape[1])]
    )
    return x, z[case["query_index"]] if "query_index" in case else z


@pytest.mark.slow
@pytest.mark.parametrize("case", cases("hdepth"))
def test_halfspace_counts(case):
    x, z = queries(case)
    assert depth.halfspace(z, x, method="exact").tolist() == case["counts"]


@pytest.mark.parametrize("case", cases("rdepth"))
@pytest.mark.slow
def test_regression_counts(case):
    fits = np.array(case["fits"])
    if "query_index" in case:
        fits = fits[case["query_index"]]
    assert depth.regression(fits, case["x"], case["y"], method="exact").tolist() == case["counts"]


@pytest.mark.parametrize("case", cases("hdepthmedian"))
def test_tukey_median(case):
    found = depth.tukey_median(case["x"])
    assert found.largest == case["max_count"] and found.centre and found.method == "exact"
    assert found.depth == depth.halfspace(found.point, case["x"])[0]
    assert found.maximal or case["degenerate"]
    np.testing.assert_allclose(found.point, case["centroid"], rtol=1e-9, atol=1e-9)
    region = depth.contours(case["x"], found.largest)[0]
    assert (len(region) < 3) == case["degenerate"]
    if "vertices" in case and not case["degenerate"]:
        hausdorff = np.abs(region[:, None] - np.array(case["vertices"])[None]).sum(axis=2)
        assert max(hausdorff.min(axis=0).max(), hausdorff.min(axis=1).max()) < 1e-8


@pytest.mark.parametrize("case", [c for c in cases("rdepthmedian") if "max_count" in c.values[0]])
def test_deepest_regression(case):
    x, y = np.array(case["x"], dtype=float)[:, 0], np.array(case["y"], dtype=float)
    found = depth.deepest_regression(x, y)
    assert found.depth == case["max_count"]
    assert depth.regression(found.fit, x, y)[0] == case["max_count"]
    levels = depth.regression_levels(x, y)
    assert levels.depth == case["max_count"]
    np.testing.assert_allclose(levels.estimate, case["mean_of_distinct_lines"], atol=1e-8)
    fits, depths = depth.vertices(x, y)
    assert (depths == depths.max()).sum() == case["n_distinct_deepest_lines"]
    assert found.rule == ("mean" if case["count_at_mean_of_distinct_lines"] == found.depth else "vertex")


@pytest.mark.parametrize("case", [c for c in cases("rdepthmedian") if c.values[0]["mrfDepth_fit"]])
def test_depth_of_the_fits_of_mrfdepth(case):
    found = depth.regression(case["mrfDepth_fit"], case["x"], case["y"])
    assert found.tolist() == [case["count_at_mrfDepth_fit"]]


def test_stars():
    """Data written with two decimals, tied and collinear on paper but not as doubles."""
    (case,) = [c.values[0] for c in cases("dataset")]
    x = np.array(case["x"])
    assert depth.halfspace(x, x).tolist() == case["hdepth_counts"]
    assert depth.regression(case["fits"], x[:, 0], x[:, 1]).tolist() == case["rdepth_counts"]
    median = depth.tukey_median(x)
    assert median.depth == case["tukey_median"]["max_count"]
    np.testing.assert_allclose(median.point, case["tukey_median"]["centroid"], rtol=1e-9)
    assert depth.deepest_regression(x[:, 0], x[:, 1]).depth == case["deepest_regression"]["max_count"]


def test_the_stored_cases_catch_a_depth_that_counts_open_half_spaces():
    """A test of the test: the depth without the boundary differs on nearly every family."""
    wrong = 0
    for case in (c.values[0] for c in cases("hdepth")[:10]):
        x, z = queries(case)
        on = (z[:, None] == x[None]).all(axis=2).sum(axis=1)
        wrong += (depth.halfspace(z, x) - on).tolist() != case["counts"]
    assert wrong == 10
