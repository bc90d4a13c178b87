import json
from pathlib import Path

import numpy as np
import pytest

from dpstats import depth
from dpstats.depth import _medsweep
from dpstats.errors import ParameterError

STORED = Path(__file__).parents[1] / "reference" / "depth" / "rdepthmedian.json"


def test_an_exact_line_with_a_third_of_outliers():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 3))
    y = 1 + X @ [2.0, -1.0, 0.5]
    y[:25] += 1000 * rng.standard_cauchy(25)
    found = depth.medsweep(X, y)
    assert found.converged
    np.testing.assert_allclose(found.fit, [1, 2, -1, 0.5], atol=1e-8)


def test_one_covariate_is_a_median_of_slopes():
    x, y = np.array([0.0, 1.0, 2.0, 3.0, 4.0]), np.array([5.0, 7.0, 9.0, 11.0, 400.0])
    found = depth.medsweep(x, y)
    assert found.fit.tolist() == [5.0, 2.0]
    assert _medsweep.slope(x, y) == 2.0


def test_converged_slopes_vanish():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((80, 2))
    y = X @ [1.0, 2.0] + rng.standard_t(3, 80)
    found = depth.medsweep(X, y)
    r = y - found.fit[0] - X @ found.fit[1:]
    assert found.converged and _medsweep.lower_median(r) == pytest.approx(0, abs=1e-12)
    assert _medsweep.slope(X[:, 0], r) == pytest.approx(0, abs=1e-8)


def test_equivariance():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((61, 2))
    y = X @ [1.0, 2.0] + rng.standard_t(3, 61)
    fit = depth.medsweep(X, y).fit
    np.testing.assert_allclose(depth.medsweep(X, 4 * y).fit, 4 * fit, rtol=1e-9)
    np.testing.assert_allclose(depth.medsweep(X * [2.0, 0.5], y).fit, fit * [1, 0.5, 2], rtol=1e-9)
    np.testing.assert_allclose(depth.medsweep(X * 1e-9, y).fit, fit * [1, 1e9, 1e9], rtol=1e-7)
    np.testing.assert_allclose(depth.medsweep(X, y + 3).fit, fit + [3, 0, 0], rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [c for c in json.loads(STORED.read_text()) if np.shape(c["x"])[1] >= 2], ids=lambda c: c["id"]
)
def test_about_as_deep_as_medsweep_of_mrfdepth(case):
    """Other medians (averages of the middle two) give other fits; their depths are alike."""
    x, y = np.array(case["x"], dtype=float), np.array(case["y"], dtype=float)
    found = depth.medsweep(x, y)
    assert depth.regression(found.fit, x, y)[0] >= case["count_at_mrfDepth_fit"] - max(2, len(y) // 25)


def test_degenerate_columns():
    x = np.column_stack([np.arange(6.0), np.full(6, 3.0), 2 * np.arange(6.0)])
    found = depth.medsweep(x, 1 + np.arange(6.0))
    assert found.converged
    np.testing.assert_allclose(found.fit, [1, 1, 0, 0], atol=1e-12)
    assert depth.medsweep([5], [2]).fit.tolist() == [2.0, 0.0]


def test_stops_after_max_sweeps():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((30, 3))
    X[:, 1] += X[:, 0] ** 2
    found = depth.medsweep(X, rng.standard_cauchy(30), max_sweeps=1)
    assert found.sweeps == 1 and not found.converged


@pytest.mark.parametrize(
    ("name", "arguments", "more"),
    [
        ("x", ([], []), {}),
        ("x", ([[1, np.nan]], [1]), {}),
        ("y", ([1, 2], [1]), {}),
        ("y", ([1, 2], "ab"), {}),
        ("max_sweeps", ([1, 2], [1, 2]), {"max_sweeps": 0}),
    ],
)
def test_errors_name_the_parameter(name, arguments, more):
    with pytest.raises(ParameterError, match=f"^{name} must"):
        depth.medsweep(*arguments, **more)
