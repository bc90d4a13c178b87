"""The methods beside which ``ols`` is run: their designs' truth, their noise and their intervals."""

import math

import numpy as np
import pandas as pd
import pytest
from replications.inference import designs, methods, study
from replications.packages import study as packages

NEVER = 1e9
"""A budget at which noise does not count."""


def rows_of(name, n, seed=0):
    design = designs.DESIGNS[name]
    frame, Z = design.draw(n, np.random.default_rng(seed))
    return methods.Rows(
        Z,
        frame["y"].to_numpy(),
        design.low,
        designs.response_range(name),
        design.mean,
        design.scale,
        design.noise,
        design.back,
    )


@pytest.mark.parametrize("name", [name for name in designs.DESIGNS if not name.startswith("bounded")])
@pytest.mark.slow
def test_least_squares_is_at_the_truth(name):
    """Six standard errors; a false alarm has probability 1e-7 in all, by normal theory."""
    design, rows = designs.DESIGNS[name], rows_of(name, 20_000)
    beta, error = study.least_squares(rows)
    assert (np.abs(beta - design.truth) < 6 * error).all()
    assert (rows.Z >= design.low - 1e-12).all() or "isotropic" in name
    np.testing.assert_allclose(rows.Z.mean(axis=0)[1:], design.mean[1:], atol=0.6)


def test_basis_is_that_of_the_formula():
    """The squared year in raw years: the map of its coefficients is exact."""
    design = designs.DESIGNS["year and its square"]
    frame, Z = design.draw(50, np.random.default_rng(0))
    year = frame["year"].to_numpy(float)
    effects = np.linalg.solve(design.back, design.truth)
    raw = design.truth[0] + design.truth[1] * year + design.truth[2] * year**2
    np.testing.assert_allclose(Z @ effects, raw, rtol=1e-9)


@pytest.mark.parametrize("method", [methods.dp_gd, methods.ssp_bootstrap])
@pytest.mark.parametrize("name", ["isotropic, d = 5", "year and its square"])
def test_without_noise_they_are_least_squares(method, name):
    rows = rows_of(name, 5_000)
    if method is methods.dp_gd:
        fit = method(rows, NEVER, np.random.default_rng(1), 60)
    else:
        fit = method(rows, NEVER, np.random.default_rng(1))
    beta, error = study.least_squares(rows)
    assert (np.abs(fit[:, 0] - beta) < error).all()


def test_bootstrap_is_as_wide_as_theory_without_noise():
    """Its interval is that of homoskedastic errors; 500 draws leave some per cent."""
    rows = rows_of("isotropic, d = 5", 20_000)
    fit = methods.ssp_bootstrap(rows, NEVER, np.random.default_rng(1))
    _, error = study.least_squares(rows)
    np.testing.assert_allclose(fit[:, 2] - fit[:, 1], 2 * study.Z95 * error, rtol=0.25)


@pytest.mark.slow
def test_noise_of_gradient_descent():
    """On rows whose gradients vanish the path is its noise: the spread of a checkpoint is known."""
    n, d, mu = 20, 4, 0.5
    one = np.ones(d)
    rows = methods.Rows(np.zeros((n, d)), np.zeros(n), -one, (-1, 1), 0 * one, one, 1.0, np.eye(d))
    fits = np.array([methods.dp_gd(rows, mu, np.random.default_rng(i))[:, 0] for i in range(200)])
    steps, clip = 50, 5 * math.sqrt(d)
    deviation = 0.2 * math.sqrt(steps) * clip / (n * mu)
    # a sum of independent steps: checkpoint k has 5 k of them
    known = deviation * math.sqrt(sum(5 * min(j, k) for j in range(1, 11) for k in range(1, 11))) / 10
    assert abs(np.std(fits) / known - 1) < 0.15  # 800 numbers: six standard errors


def test_binagg_noise_costs_what_is_said():
    """A row in the corner of its leaf: squared shifts over squared scales, summed over what is released."""
    d, mu = 5, 1.0
    part = 9 / 28 * mu**2
    corner = np.ones(d)  # in units of the scale of each sum's noise times mu_rest
    spent = mu**2 / 28 + part + part * (corner @ corner) + part
    assert math.isclose(math.sqrt(spent), methods.binagg_costs(d) * mu)


def test_tree_has_every_row_in_one_leaf():
    rng = np.random.default_rng(0)
    Z = rng.uniform(-1, 1, (500, 3))
    leaves, low, high = methods.tree(Z, -np.ones(3), 0.3, rng)
    assert len(leaves) >= 4 and sorted(np.concatenate(leaves)) == list(range(500))
    for leaf, l, h in zip(leaves, low, high, strict=True):  # noqa: E741
        assert (Z[leaf] >= l).all() and (Z[leaf] <= h).all()


def test_table_counts():
    """Two data sets and two coefficients: one interval covers, one is above, one missing, one refused."""
    truth = np.array([0.0, 1.0])
    exact = np.array([[[0.1, -1, 1], [1, 0, 2]], [[-0.1, -1, 1], [1.5, 0, 2]]])
    fits = np.array([[[0, -1, 1.0], [3, 2, 4]], [[0, -2, 2], [np.nan] * 3]])
    first, second, pooled = study.table(fits, exact, truth, 0, 1.0)
    assert first["coverage"] == 1 and first["undetermined"] == 0 and first["width"] == 1.5
    assert second["coverage"] == 0 and second["above"] == 1 and second["undetermined"] == 1
    assert pooled["given"] == 3 and pooled["coverage"] == pytest.approx(2 / 3)
    assert pooled["coverage_least"] == 0


@pytest.mark.slow
def test_a_piece_is_merged_and_drawn(tmp_path):
    """`--merge` replaces the rows that are run again and keeps the others."""
    output = tmp_path / "results.csv"
    given = ["--runs", "2", "--designs", "isotropic, d = 10", "--output", str(output)]
    study.main([*given, "--only", "BinAgg", "DP-GD"])
    before = pd.read_csv(output)
    study.main([*given, "--only", "DP-GD", "--merge"])
    after = pd.read_csv(output)
    pd.testing.assert_frame_equal(before.drop(columns="seconds"), after.drop(columns="seconds"))
    assert set(after["method"]) == {study.EXACT, "BinAgg", "DP-GD", study.TOLD}


def test_dp_lm_of_dprivstats_is_its_equation():
    """One column of ones: least eigenvalue n, noise of sensitivity (high - low) / n at the mean."""
    n, runs = 100, 2_000
    rows = methods.Rows(
        np.ones((n, 1)), np.zeros(n), np.ones(1), (-1, 1), np.zeros(1), np.ones(1), 1.0, np.eye(1)
    )
    fits = np.array([packages.dprivstats(rows, np.random.default_rng(i))[0] for i in range(runs)])
    scale = 2 / n / packages.gdp_mu(packages.EPS, packages.DELTA)
    assert abs(np.std(fits[:, 0]) / scale - 1) < 0.09  # five and a half standard errors
    # residuals are the noise itself, which adds its square over n
    assert (fits[:, 2] - fits[:, 1] > 2 * 1.959 * scale).all()


def test_open_dp_is_near_the_sample():
    packages.dp.enable_features("contrib", "honest-but-curious")
    x = np.linspace(-1, 1, 20_001)
    mean, median, high = packages.open_dp(len(x), (-1.0, 1.0))(x)
    assert abs(mean) < 0.01 and abs(median) < 0.05 and abs(high - 0.8) < 0.05


def test_page_has_the_table():
    """README's tables are those of results.csv."""
    page, table = (study.HERE / "README.md").read_text(), pd.read_csv(study.RESULTS)
    for names in ([name for name, _, _ in study.SHOWN], study.AUTHORS):
        assert study.summary(table, names) in page


def test_page_of_packages_has_the_table():
    """README's table is that of results.csv."""
    page = (packages.HERE / "README.md").read_text()
    assert packages.summary(pd.read_csv(packages.HERE / "results.csv")) in page
