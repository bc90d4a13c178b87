"""Live comparison with the R packages ddalpha (from Debian) and mrfDepth (where it is installed)."""

import numpy as np
import pytest

from dpstats import depth


def r_matrix(robjects, a):
    a = np.asarray(a, dtype=float)
    return robjects.r.matrix(robjects.FloatVector(a.ravel(order="F")), nrow=a.shape[0], ncol=a.shape[1])


def counts(values, n):
    """R returns depth / n as doubles."""
    scaled = np.array(values, dtype=float) * n
    np.testing.assert_allclose(scaled, np.rint(scaled), atol=1e-6)
    return np.rint(scaled).astype(int)


def sample(kind, n, d, seed):
    rng = np.random.default_rng(seed)
    if kind == "normal":
        return rng.standard_normal((n, d))
    if kind == "cauchy":
        return rng.standard_cauchy((n, d))
    return rng.integers(-3, 4, (n, d)).astype(float)


@pytest.mark.slow
@pytest.mark.r("ddalpha")
@pytest.mark.parametrize("kind", ["normal", "cauchy", "grid"])
@pytest.mark.parametrize(("n", "d"), [(100, 2), (40, 3), (18, 4)])
def test_halfspace_counts_equal_ddalpha(robjects, kind, n, d):
    data = sample(kind, n, d, seed=n + d)
    points = np.vstack([data[:15], sample(kind, 10, d, seed=1), data.mean(axis=0, keepdims=True)])
    depth_halfspace = robjects.r("ddalpha::depth.halfspace")
    theirs = depth_halfspace(
        r_matrix(robjects, points), r_matrix(robjects, data), exact=True, method="recursive"
    )
    assert depth.halfspace(points, data).tolist() == counts(theirs, n).tolist()


@pytest.mark.mrfdepth
@pytest.mark.parametrize("kind", ["normal", "grid"])
@pytest.mark.parametrize(("n", "d"), [(60, 1), (100, 2), (40, 3)])
def test_halfspace_counts_equal_mrfdepth(robjects, kind, n, d):
    data = sample(kind, n, d, seed=n + d)
    points = np.vstack([data[:15], sample(kind, 10, d, seed=1)])
    found = robjects.r("mrfDepth::hdepth")(r_matrix(robjects, data), r_matrix(robjects, points))
    assert depth.halfspace(points, data).tolist() == counts(found.rx2("depthZ"), n).tolist()


@pytest.mark.mrfdepth
@pytest.mark.parametrize("kind", ["normal", "grid"])
@pytest.mark.parametrize(("n", "p"), [(100, 1), (40, 2)])
def test_regression_counts_equal_mrfdepth(robjects, kind, n, p):
    table = sample(kind, n, p + 1, seed=n + p)
    fits = sample(kind, 20, p + 1, seed=2)
    found = robjects.r("mrfDepth::rdepth")(r_matrix(robjects, table), r_matrix(robjects, fits))
    ours = depth.regression(fits, table[:, :p], table[:, p])
    assert ours.tolist() == counts(found.rx2("depthZ"), n).tolist()


@pytest.mark.mrfdepth
@pytest.mark.parametrize("name", ["bloodfat", "stars", "geological"])
def test_data_of_mrfdepth(robjects, name):
    """Depth of every row of its data sets, and medians at least as deep as its own."""
    robjects.r(f"data({name}, package = 'mrfDepth')")
    data = np.array(robjects.r["as.matrix"](robjects.r[name]))[:, :2]
    r_data = r_matrix(robjects, data)
    theirs = counts(robjects.r("mrfDepth::hdepth")(r_data, r_data).rx2("depthZ"), len(data))
    assert depth.halfspace(data, data).tolist() == theirs.tolist()
    median = np.array(robjects.r("mrfDepth::hdepthmedian")(r_data).rx2("median"), dtype=float).ravel()
    assert depth.tukey_median(data).depth >= depth.halfspace(median, data)[0]


@pytest.mark.mrfdepth
def test_deepest_regression_is_at_least_as_deep(robjects):
    for seed in range(5):
        table = sample("normal", 60, 2, seed)
        fit = robjects.r("mrfDepth::rdepthmedian")(r_matrix(robjects, table)).rx2("deepest")
        ours = depth.deepest_regression(table[:, 0], table[:, 1])
        assert (
            ours.depth >= depth.regression(np.array(fit, dtype=float).ravel(), table[:, :1], table[:, 1])[0]
        )
