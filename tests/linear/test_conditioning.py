"""Rows made up from released marginals: their distribution, and the metric that they are white in."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dpstats
from dpstats.data.schema import Schema
from dpstats.data.sources import open_source
from dpstats.engines.local import Rows
from dpstats.formula.design import Design
from dpstats.formula.marginals import Marginals
from dpstats.linear.conditioning import REFERENCE, make_up, start_map
from dpstats.linear.prepare import prepare
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.standardize import Columns, standardize
from dpstats.mechanisms.whiten import Affine

from .test_prepare import silent

N = 20_000


def frame(seed=0):
    g = np.random.default_rng(seed)
    f = pd.Categorical.from_codes(g.choice(3, N, p=[0.005, 0.495, 0.5]), list("abc"))
    year, age = 1990.0 + g.integers(0, 40, N), np.clip(np.round(g.normal(45, 15, N)), 18, 90)
    income, height = np.exp(g.normal(10, 1, N)), g.normal(170, 8, N)
    numbers = {"year": year, "age": age, "income": income, "height": height}
    return pd.DataFrame(numbers | {"y": g.standard_normal(N)}).assign(f=f)


def design_of(formula, data, **facts):
    return Design.from_formula(formula, Schema.of(open_source(data), **facts))


def marginals_of(rhs):
    return Marginals.of(design_of(f"y ~ {rhs}", frame()))


def test_what_columns_are_made_of():
    plain = marginals_of("year + np.log(income) + I(age * height)")
    assert plain.plain and plain.direct == (1, 2, 3) and plain.moved == ()
    poly = marginals_of("year + I(year**2) + income")
    assert (poly.direct, dict(poly.variables), poly.extra) == ((1, 3), {"year": 0}, ())
    assert (poly.joint, poly.moved) == ((0, 1, 2), (2,))
    two = marginals_of("np.log(income) + I(np.log(income)**2) + year")
    assert (two.direct, dict(two.variables), two.extra) == ((3,), {"income": 1}, ("income",))
    product = marginals_of("age:height + f")
    assert (product.direct, product.extra) == ((), ("age", "height"))
    assert [factor.name for factor in product.factors] == ["f"]
    assert product.joint == (0, 1, 2, 3) and product.moved == (3,)
    shared = marginals_of("age + height + I(age * height)")
    assert shared.direct == (1, 2, 3) and shared.joint == (0, 1, 2, 3) and shared.moved == ()


def variable(x):
    groups = [Columns(0, np.array([0]), 1e9, 1e9, signed=True)]
    return standardize(Rows(x[:, None], np.zeros(len(x))), groups, len(x), Randomness(0))[0]


@pytest.mark.parametrize("name", ["year", "age", "income", "height"])
def test_made_up_values_have_the_distribution_of_the_variable(name):
    x = frame()[name].to_numpy()
    marginals = marginals_of(f"{name}:{name} + I({name}**2)")
    made = make_up(marginals, variable(x), [], 0.0, N, 1.0)
    values = np.sqrt(made.rows[:, -1])
    spread = x.std()
    # octaves of the distance from the median tell no more than these
    assert abs(values.mean() - x.mean()) < 0.15 * spread
    assert 0.8 < values.std() / spread < 1.25
    for p in (0.1, 0.5, 0.9):
        assert abs(np.quantile(values, p) - np.quantile(x, p)) < 0.35 * spread


HARD = (
    "year + I(year**2)",
    "year + I(year**2) + I(year**3)",
    "age + I(age**2) + I(age**3)",
    "age * height",
    "f + height",
    "f * year",
    "np.log(income) + I(np.log(income)**2)",
)


@pytest.mark.parametrize("rhs", HARD)
def test_the_first_metric_is_nearly_the_rows_own(rhs):
    """Axes of the whitened rows, before the first noisy Gram matrix, differ by less than a factor 6; those of
    the standardised columns by up to 10^5, as of the cubic."""
    data = frame()
    design = design_of(f"y ~ {rhs}", data)
    blocks = design.blocks(open_source(data))
    budget = silent(design)
    got = prepare("test", blocks, replace(budget, stages=()), Randomness(1))
    z = got.affine.apply(np.hstack(next(iter(blocks))))
    assert axes(z @ got.whitening.W) < 6
    X, _ = next(iter(blocks))
    X[:, 1:] -= X[:, 1:].mean(axis=0)
    assert axes(X / np.sqrt(np.mean(X**2, axis=0))) > 14 or rhs == "f + height"


def axes(v):
    s = np.linalg.svd(v, compute_uv=False)
    return s[0] / s[-1]


def test_limits_are_those_of_the_variable():
    data = frame()
    data.loc[0, "year"] = 0.0
    design = design_of("y ~ year + I(year**2)", data)
    got = prepare("test", design.blocks(open_source(data)), silent(design, scale=1.0), Randomness(1), 1.0)
    low, high = got.low[1], got.high[1]
    assert 1950 < low < 1990 and 2029 < high < 2070
    edge = (high**2 - low**2) / 1024
    assert got.low[2] == pytest.approx(low**2 - edge) and got.high[2] == pytest.approx(high**2 + edge)


@pytest.mark.parametrize("rows, kept", [(0, False), (110, False), (400, True)])
def test_a_level_without_visible_rows_leaves_the_model_with_its_products(rows, kept):
    """The noise of a count has the standard deviation 20: a level that counts below 100 leaves."""
    data = frame()
    codes = np.where(data["f"].cat.codes == 0, 1, data["f"].cat.codes)
    codes[:rows] = 0
    levels = pd.Categorical.from_codes(codes, ["c", "b", "a"])
    data = data.assign(f=levels.reorder_categories(["b", "a", "c"]))
    design = design_of("y ~ f * age", data)
    got = prepare("test", design.blocks(open_source(data)), silent(design, levels=1 / 20), Randomness(3))
    left = {design.column_names[j] for j in set(range(6)) - set(got.affine.columns.tolist())}
    assert left == (set() if kept else {"f[T.c]", "f[T.c]:age"})


def test_the_constant_stays_where_a_factor_has_one_level_that_is_not_seen():
    """No made-up row has another level, so that every column looks empty without its rows."""
    data = frame().assign(f="a")
    design = design_of("y ~ age + f", data, levels={"f": ["a"]})
    for references in (0.0, REFERENCE):
        made = make_up(Marginals.of(design), None, [np.array([5.0])], 20.0, 300.0, 1.0, references=references)
        assert made.marginals.joint == (0,) and not made.empty.any() and not made.gone


def test_directions_without_variation_stay_as_they_are():
    x = np.linspace(-1, 1, 101)
    rows = np.column_stack([np.ones(101), x, 2 * x, np.zeros(101)])
    W = start_map(rows, np.zeros(4, bool), True)
    assert np.isfinite(W).all() and np.abs(W).max() < 10
    white = rows @ W
    values = np.linalg.eigvalsh(white.T @ white / 101)
    np.testing.assert_allclose(values, [0, 0, 1, 1], atol=1e-9)


def test_a_released_scale_that_made_up_rows_contradict_is_believed():
    rows = np.column_stack([np.ones(101), np.linspace(-9, 9, 101), np.linspace(-1, 1, 101) ** 2])
    W = start_map(rows, np.array([False, True, False]), True)
    np.testing.assert_array_equal(W[1], [0, 1, 0])
    assert start_map(rows, np.zeros(3, bool), True)[1, 1] == pytest.approx(1 / 5.247, rel=0.01)


def test_what_is_made_up_follows_from_what_is_released(monkeypatch):
    """The rows themselves come no nearer to it than the release: other rows, and the same answers."""
    from dpstats.linear import prepare as module

    released, seen, data = {}, [], frame()
    design = design_of("y ~ year + I(year**2) + f", data)

    def replay(name):
        real = getattr(module, name)

        def answer(*arguments):
            if name not in released:
                released[name] = real(*arguments)
            return released[name]

        monkeypatch.setattr(module, name, answer)

    for name in ("release_count", "standardize", "release_levels"):
        replay(name)
    real = module.whiten
    monkeypatch.setattr(module, "whiten", lambda *a: seen.append(a[-2:]) or real(*a))
    for rows in (data, data.iloc[:700]):
        prepare("test", design.blocks(open_source(rows)), silent(design), Randomness(1))
    (start, (means, shares)), (again, (other_means, other_shares)) = seen
    for one, other in ((start, again), (means, other_means), (shares, other_shares)):
        np.testing.assert_array_equal(one, other)


def test_groups_are_the_levels_and_their_shares():
    data = frame()
    design = design_of("y ~ height + f", data)
    marginals, counts = Marginals.of(design), np.bincount(data["f"].cat.codes)
    made = make_up(marginals, None, [counts.astype(float)], 1.0, N, 1.0)
    loc, scale = np.array([0.0, 0.5, 0.5, 7.0]), np.array([1.0, 0.5, 0.5, 3.0])
    means, shares = made.groups(np.array([0, 2, 3]), loc, scale)
    np.testing.assert_allclose(shares, counts / N, atol=1e-3)
    # the constant, the dummy of the third level, and a column of which nothing is made up
    np.testing.assert_allclose(means, [[1, -1, 0], [1, -1, 0], [1, 1, 0]])


def test_what_only_the_rows_of_one_level_have():
    """The constant and the dummies are one combination without the reference level; of others, the dummy."""
    data = frame()
    marginals, counts = Marginals.of(design_of("y ~ f + height", data)), np.bincount(data["f"].cat.codes)
    made = make_up(marginals, None, [counts.astype(float)], 1.0, N, 1.0)
    found = made.alone(Affine(np.arange(4), np.zeros(4), np.ones(4)))
    expected = np.array([[1, -1, -1, 0], [0, 1, 0, 0], [0, 0, 1, 0]]) / np.array([[np.sqrt(3)], [1], [1]])
    own = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0]])
    for (share, alone, gram), combination, row, n in zip(found, expected, own, counts, strict=True):
        assert share == pytest.approx(n / N, abs=1e-3) and alone.shape == (4, 1)
        np.testing.assert_allclose(np.abs(alone[:, 0] @ combination), 1.0)
        np.testing.assert_allclose(gram, np.outer(row, row), atol=1e-12)


def test_rows_of_levels_that_left_hide_no_combination():
    """Without the second level's column its rows would be rows of the reference level."""
    data = frame()
    marginals, counts = Marginals.of(design_of("y ~ f + height", data)), np.array([100.0, 2.0, N - 102.0])
    made = make_up(marginals, None, [counts], 50.0, N, 1.0)
    assert made.left == (("f", 1),)
    affine = Affine(np.array([0, 2, 3]), np.array([0.0, 0.5, 7.0]), np.array([1.0, 0.5, 3.0]))
    (_, reference, _), (_, last, _) = made.alone(affine)
    np.testing.assert_allclose(np.abs(reference[:, 0]), [math.sqrt(0.5), math.sqrt(0.5), 0])
    assert last.shape == (3, 1)


def with_rare_level(shift, rows=30):
    """Three levels, one of them of a few rows, whose response is shifted; every two rows are a person."""
    g = np.random.default_rng(3)
    codes = g.permutation(np.repeat(range(3), [12_000 - rows, 8_000, rows]))
    y = g.standard_normal(N) + shift * (codes == 2)
    data = frame().assign(f=pd.Categorical.from_codes(codes, list("abc")), y=y, who=np.arange(N) // 2)
    count = g.poisson(2.0, N) + (10.0 if shift else 0.0) * (codes == 2)
    return data.assign(event=(y > 0.3) * 1.0, count=count)


def test_rows_of_a_level_that_left_do_not_count():
    data = with_rare_level(6.0, 60)
    design = design_of("y ~ f * age", data)
    got = prepare("test", design.blocks(open_source(data)), silent(design, levels=1 / 20), Randomness(3))
    assert {design.column_names[j] for j in got.gone.columns} == {"f[T.c]", "f[T.c]:age"}
    # the noise of the level's count has the standard deviation 20
    assert 0 < abs(got.count - (N - 60)) < 50
    kept = data[data["f"] != "c"]
    rows = got.rows_of(design.blocks(open_source(data)))
    X, Y = (np.vstack(part) for part in zip(*rows, strict=True))
    np.testing.assert_array_equal(Y[:, 0], kept["y"])
    assert not X[:, got.gone.columns].any() and len(X) == N - 60
    whole = prepare("test", design.blocks(open_source(kept)), silent(design, levels=1 / 20), Randomness(3))
    np.testing.assert_allclose(got.whitening.theta[1:], whole.whitening.theta[1:], atol=0.002)
    # nothing is left out if all levels stay
    stays = with_rare_level(0.0, 400)
    got = prepare("test", design.blocks(open_source(stays)), silent(design, levels=1 / 20), Randomness(3))
    assert not got.gone and got.rows_of(rows) is rows


CALLS = {
    **{name: (name, "y", {}) for name in ("ols", "huber", "adassp", "boosted_adassp", "tukey_em")},
    "logit": ("logit", "event", {}),
    "poisson": ("poisson", "count", {}),
    **{f"{name} of persons": (name, y, {"unit": "who"}) for name, y in (("ols", "y"), ("logit", "event"))},
    "tukey_em of persons": ("tukey_em", "y", {"unit": "who"}),
}


QUICK = ("ols", "poisson")


@pytest.mark.parametrize(
    "case", [c if c in QUICK else pytest.param(c, marks=pytest.mark.slow) for c in CALLS]
)
def test_a_level_that_left_moves_nothing(case):
    """Thirty of 20,000 rows, twenty standard deviations off, are not seen at eps = 1. As rows of the
    reference level they would move the constant by several standard errors."""
    name, response, more = CALLS[case]
    without, shifted = (
        getattr(dpstats, name)(f"{response} ~ height + f", with_rare_level(shift), eps=1, seed=3, **more)
        for shift in (0.0, 20.0)
    )
    # (of a column that is held to be rare the level has no estimate either way)
    assert not shifted.determined["f[T.c]"] and shifted.determined[["Intercept", "f[T.b]", "height"]].all()
    moved = (shifted.params - without.params).drop("f[T.c]") / without.bse.drop("f[T.c]")
    assert moved.abs().max() < 0.5
    ratio = (shifted.bse / without.bse).drop("f[T.c]")
    assert ratio.between(0.9, 1.1).all()


def test_rare_levels_are_as_long_as_others(monkeypatch):
    """Sixty rows of 20,000 at eps = 4: in the metric that is learnt no direction of theirs is stretched."""
    import dpstats.regression.ols as module

    g = np.random.default_rng(6)
    data = frame().assign(f=pd.Categorical.from_codes(g.choice(3, N, p=[0.497, 0.5, 0.003]), list("abc")))
    made, real = [], module.prepare
    monkeypatch.setattr(module, "prepare", lambda *a, **k: made.append(real(*a, **k)) or made[-1])
    X = np.column_stack([np.ones(N), data["f"] == "b", data["f"] == "c", data["height"]])
    for seed in range(4):
        module.ols("y ~ height + f", data, eps=4, seed=seed)
        a, W = made[-1].affine, made[-1].whitening.W
        V = (X[:, a.columns] - a.loc) / a.scale @ W
        assert 0.4 < np.linalg.eigvalsh(V.T @ V / N)[-1] < 2.5


def made_of(formula, data, counts, references=0.0, **facts):
    """Made-up rows, with released numbers of rows of the levels; noise of a standard deviation of 50."""
    marginals = Marginals.of(design_of(formula, data, **facts))
    variables = variable(data["w"].to_numpy()) if marginals.variables else None
    return make_up(
        marginals, variables, [np.array(c, float) for c in counts], 50.0, N, 1.0, references=references
    )


@pytest.mark.parametrize("formula, counts, left, gone", [
    # a rare level of a factor whose columns all levels share stays
    ("y ~ C(f, Sum) + h", [[12_000, 7_950, 50], [10_000, 9_940, 60]], [("h", 2)], ["h[T.r]"]),
    ("y ~ f + h", [[50, 12_000, 7_950], [10_000, 9_940, 60]], [("h", 2)], ["h[T.r]"]),
    # cells that no row has are the level's, too
    ("y ~ f:h", [[12_000, 7_950, 50], [10_000, 9_999, 1]], [("f", 2), ("h", 2)], None),
    # a column that is 0 in all rows is no level's
    ("y ~ f + w + I(w**2)", [[12_000, 7_950, 50]], [("f", 2)], ["f[T.c]"]),
    ("y ~ f * w", [[12_000, 7_950, 50]], [("f", 2)], ["f[T.c]", "f[T.c]:w"]),
    ("y ~ C(f, Sum) * h", [[50, 12_000, 7_950], [10_000, 9_950, 50]], [("h", 2)],
     ["h[T.r]", "C(f, Sum)[S.a]:h[T.r]", "C(f, Sum)[S.b]:h[T.r]"]),
    # five standard deviations of the noise for each of its columns, and never more than 3 % of the rows
    ("y ~ f + w + I(w**2)", [[12_000, 7_740, 260]], [], []),
    ("y ~ f * w", [[12_000, 7_510, 490]], [("f", 2)], ["f[T.c]", "f[T.c]:w"]),
    ("y ~ f * w", [[12_000, 7_490, 510]], [], []),
    ("y ~ f * h", [[12_000, 7_390, 610], [10_000, 5_000, 5_000]], [], []),
    # for slopes no more than 3 % of the rows leave: of 450 and 160, or of two of 290 and one of 5
    ("y ~ f * w", [[450, 19_390, 160]], [("f", 2)], ["f[T.c]", "f[T.c]:w"]),
    ("y ~ 0 + f + f:w", [[450, 19_390, 140]], [("f", 0), ("f", 2)], ["f[a]", "f[c]", "f[a]:w", "f[c]:w"]),
    ("y ~ 0 + f + f:w", [[450, 19_390, 160]], [("f", 2)], ["f[c]", "f[c]:w"]),
    # a reference level that has slopes of its own stays, as its rows say what the constant is
    ("y ~ f + f:w", [[50, 12_000, 7_950]], [], []),
    # rows that are 0 stay, and so the number of rows
    ("y ~ f:w", [[50, 12_000, 7_950]], [("f", 0)], ["f[a]:w"]),
    ("y ~ 0 + f", [[50, 12_000, 7_950]], [("f", 0)], ["f[a]"]),
])  # fmt: skip
def test_levels_leave_with_columns_that_are_theirs_alone(formula, counts, left, gone):
    g = np.random.default_rng(2)
    data = frame().assign(h=pd.Categorical.from_codes(g.integers(0, 3, N), list("pqr")), w=0.0)
    made = made_of(formula, data, counts)
    assert sorted(made.left) == left
    names = [made.marginals.design.column_names[j] for j in made.gone.columns]
    if gone is None:
        theirs = [n for n in made.marginals.design.column_names if "c]" in n or "r]" in n]
        assert set(names) == set(theirs) and len(theirs) > 3
    else:
        assert names == gone
    factors = [factor.name for factor in made.marginals.factors]
    shares = [
        sum(c[level] for name, level in left if name == factor) / N
        for factor, c in zip(factors, counts, strict=True)
    ]
    assert made.stay == pytest.approx(1.0 if formula == "y ~ f:w" else np.prod([1 - s for s in shares]))


def with_h():
    g = np.random.default_rng(2)
    return frame().assign(h=pd.Categorical.from_codes(g.integers(0, 3, N), list("pqr")), w=0.0)


REFERENCES = {
    # the formula, numbers of rows, which reference levels leave, and what leaves instead of their columns
    "alone": ("y ~ f + h", [[50, 12_000, 7_950], [10_000, 6_000, 4_000]], "a", ["f[T.b]"]),
    "the most common level is the last": ("y ~ f", [[50, 7_950, 12_000]], "a", ["f[T.c]"]),
    "another one": ("y ~ C(f, Treatment('b'))", [[12_000, 50, 7_950]], "b", ["C(f, Treatment('b'))[T.a]"]),
    "slopes": ("y ~ age * f", [[50, 12_000, 7_950]], "a", ["f[T.b]", "age:f[T.b]"]),
    "a spline": ("y ~ f * bs(age, knots=[40], degree=1, lower_bound=0, upper_bound=100)",
                 [[50, 12_000, 7_950]], "a", None),
    "both": ("y ~ f * h", [[50, 12_000, 7_950], [90, 10_910, 9_000]], "ap", None),
    "with another level": ("y ~ f * h", [[50, 12_000, 7_950], [10_910, 9_000, 90]], "a",
                           ["f[T.b]", "f[T.b]:h[T.q]"]),
    # its slopes have columns, and so the rows have a say
    "full slopes": ("y ~ f + f:age", [[50, 12_000, 7_950]], "", []),
    "without a constant": ("y ~ 0 + f + h", [[9_000, 5_050, 5_950], [50, 12_000, 7_950]], "", []),
    "sums": ("y ~ C(f, Sum)", [[50, 12_000, 7_950]], "", []),
    "products alone": ("y ~ f:h", [[50, 12_000, 7_950], [10_000, 6_000, 4_000]], "", []),
    # above five standard deviations of the noise for each of its columns
    "rare": ("y ~ f", [[240, 12_000, 7_760]], "a", ["f[T.b]"]),
    "not rare": ("y ~ f", [[260, 12_000, 7_740]], "", []),
    "rare for slopes": ("y ~ age * f", [[260, 12_000, 7_740]], "a", ["f[T.b]", "age:f[T.b]"]),
    # what it multiplies is a term whose factors are in another order
    "another order": ("y ~ f * h + age + f:age + h:age + age:h:f",
                      [[50, 12_000, 7_950], [10_000, 6_000, 4_000]], "", []),
    # there is no other level to compare with
    "none is seen": ("y ~ f", [[1, 2, 0]], "", []),
}  # fmt: skip


@pytest.mark.parametrize("case", REFERENCES)
def test_a_rare_reference_level_leaves_with_its_rows(case):
    formula, counts, names, instead = REFERENCES[case]
    data = with_h()
    made = made_of(formula, data, counts, references=REFERENCE)
    gone, columns = made.gone, made.marginals.design.column_names
    assert "".join(level for _, level, _ in gone.references) == names
    if instead is not None:
        assert [columns[j] for j in gone.instead] == instead
    X = np.vstack([X for X, _ in made.marginals.design.blocks(open_source(data))])
    kept = gone.kept(X)
    rare = {"f": "a", "C(f, Treatment('b'))": "b", "h": "p"}
    expected = np.ones(N, bool)
    for factor, level, other in gone.references:
        assert level == rare[factor] and any(f"[T.{other}]" in columns[j] for j in gone.instead)
        expected &= data[factor if factor == "h" else "f"] != level
    if case == "with another level":
        expected &= data["h"] != "r"
    if case == "none is seen":
        expected &= data["f"] == "a"
    np.testing.assert_array_equal(kept, expected)
    # no fitted value of a row that is left moves, and nothing else is free
    assert not np.any(X[kept] @ gone.free)
    rest = np.setdiff1d(np.arange(len(columns)), np.concatenate([gone.columns, gone.instead]))
    inside = np.setdiff1d(np.arange(len(columns)), gone.columns)
    rank = np.linalg.matrix_rank(X[kept][:, inside])
    assert np.linalg.matrix_rank(X[kept][:, rest]) == len(rest) == rank == len(inside) - len(gone.instead)
    assert np.linalg.matrix_rank(gone.free) == len(gone.instead)
    # made-up rows of their levels have a say in neither scale
    loc, scale = np.zeros(len(columns)), np.ones(len(columns))
    made.standardize(loc, scale, "0 +" not in formula)
    assert not scale[gone.instead].any() and scale[rest].all()
    if case == "none is seen":
        assert made.stay == pytest.approx(1 - 2 / N)
    else:
        left = [min(c) / N for c in counts if min(c) < 300 and names]
        assert made.stay == pytest.approx(np.prod([1 - share for share in left]))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ols", "huber", "adassp", "logit"])
@pytest.mark.parametrize("more", [{}, {"unit": "who"}], ids=["rows", "units"])
def test_a_rare_reference_level_takes_no_other_coefficient_along(name, more):
    """Thirty rows twenty standard deviations off: the others' differences are what they are without."""
    if more and name == "adassp":
        pytest.skip("it has no units")
    fits, response = [], "event" if name == "logit" else "y"
    for shift in (0.0, 20.0):
        data = with_rare_level(shift)
        data["f"] = data["f"].cat.reorder_categories(["c", "a", "b"])
        fits.append(getattr(dpstats, name)(f"{response} ~ height + f", data, eps=1, seed=3, **more))
    without, shifted = fits
    for fit in fits:
        assert fit.determined.to_dict() == {
            "Intercept": False,
            "f[T.a]": False,
            "f[T.b]": False,
            "height": True,
        }
        assert any("the reference level of f, 'c'" in note for note in fit.notes)
        again = dpstats.from_dict(fit.to_dict())
        for one in (fit, again):
            assert np.isnan(one.cov_params([[0, 1, 0, 0]]).iloc[0, 0])
            test = one.t_test(["f[T.b] = f[T.a]", "f[T.b]"])
            assert abs(test.effect[0]) < 4 * test.sd.ravel()[0] < 0.3 and np.isnan(test.sd.ravel()[1])
            assert one.wald_test("f[T.b] = f[T.a]").pvalue > 1e-4
            for hypothesis in ("f[T.b] = f[T.a] = 0", "f[T.b]", ["f"]):
                with pytest.raises(dpstats.NotReleased, match="not determined"):
                    one.wald_test(hypothesis)
            assert np.isnan(one.wald_test_terms().table["statistic"][["Intercept", "f"]]).all()
            se = one.get_prediction(pd.DataFrame({"height": [170.0] * 3, "f": list("abc")})).se_mean
            assert np.isnan(se).tolist() == [False, False, True] and se[:2].max() < 0.1
    if name == "logit":
        # height's is known as well as its coefficient
        effect = without.marginal_effects().loc["height"]
        ratio = effect["std.error"] / abs(effect["estimate"]) / (without.bse / without.params.abs())["height"]
        assert 0.9 < ratio < 1.3
    moved = shifted.t_test("f[T.b] = f[T.a]").effect - without.t_test("f[T.b] = f[T.a]").effect
    assert abs(moved[0]) < 0.5 * without.t_test("f[T.b] = f[T.a]").sd.ravel()[0]
    assert abs(shifted.params["height"] - without.params["height"]) < 0.5 * without.bse["height"]


def test_the_slope_of_a_reference_level_that_left_is_no_others_in_any_unit():
    """Nor does a predictor that is nearly another one bring what its coefficients are not determined for."""
    data = with_rare_level(6.0)
    data["f"] = data["f"].cat.reorder_categories(["c", "a", "b"])
    for unit in (1e-6, 1.0, 1e6):
        fit = dpstats.ols("y ~ height * f", data.assign(height=(data["height"] - 170) * unit), eps=1, seed=1)
        slopes = fit.t_test(["height", "height + height:f[T.b]", "height:f[T.a] = height:f[T.b]"]).sd.ravel()
        assert np.isnan(slopes).tolist() == [True, False, False]
        assert slopes[1:].max() * unit < 0.1
        assert np.isnan(fit.wald_test_terms().table["statistic"]).all()
    near = data.assign(other=data["height"] + 0.01 * np.random.default_rng(1).standard_normal(N))
    fit = dpstats.ols("y ~ height + other + f", near, eps=1, seed=1)
    assert not fit.determined[["height", "other"]].any()
    both = [[0, 0, 0, 1, 1], [0, -1, 1, 1, 1]]
    assert list(fit.names[3:]) == ["height", "other"] and np.isnan(fit.t_test(np.array(both)).sd).all()
    # nor what would be hidden without the reference level, too
    own = [f"{x} + {x}:f[T.{level}]" for x in ("height", "other") for level in "ab"]
    for function, response in ((dpstats.ols, "y"), (dpstats.logit, "event")):
        fit = function(f"{response} ~ (height + other) * f", near, eps=1, seed=1)
        assert fit.free.shape[1] == 3 and np.isnan(fit.t_test(own).sd).all()


def few_kept(n, shift, seed):
    """Twelve levels that half a percent of the rows have each, and one of the others."""
    g = np.random.default_rng(seed)
    codes = g.choice(13, n, p=[0.94, *[0.005] * 12])
    data = pd.DataFrame({"f": pd.Categorical.from_codes(codes, list("abcdefghijklm"))})
    x = g.standard_normal(n)
    return data.assign(x=x, y=(g.random(n) < 1 / (1 + np.exp(-shift - 0.5 * x))) * 1.0)


def test_a_glm_starts_from_the_rows_that_are_left(monkeypatch):
    """Nine tenths are 1, and six in a hundred leave: of the rows that stay the share is what it was."""
    import dpstats.linear.family as module

    seen, real = [], module.Binomial.start
    monkeypatch.setattr(module.Binomial, "start", lambda *a: seen.append(real(*a)) or seen[-1])
    fit = dpstats.logit("y ~ x + f", few_kept(12_000, 2.3, 1), eps=1, seed=1)
    assert (~fit.determined).sum() >= 11
    assert seen[0].mean == pytest.approx(1 / (1 + np.exp(-2.3)), abs=0.03)


def test_tukey_em_refuses_before_the_preparation_or_not_at_all(monkeypatch):
    """Rows that are left out do not make it refuse later, for the price of the count."""
    import dpstats.regression.tukey_em as module

    plans, real = [], module._plan
    monkeypatch.setattr(module, "_plan", lambda b, q, c: plans.append(c) or real(b, q, c))
    fit = dpstats.tukey_em("y ~ height + f", with_rare_level(0.0, 90), eps=1, seed=4)
    assert not fit.determined["f[T.c]"] and fit.nobs < plans[0] - 20
    assert len(plans) == 2 and plans[0] == plans[1]


def test_all_rows_of_a_unit_stay_together_beside_a_level_that_left():
    """Two rows of each person, thirty of a level that leaves: the subsets hold all others."""
    import dpstats.regression.tukey_em as module

    seen, real = [], module.subset_moments
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "subset_moments", lambda *a: seen.append(real(*a)) or seen[-1])
        data = with_rare_level(0.0)
        fit = dpstats.tukey_em("y ~ height + f", data, eps=1, unit="who", seed=3)
    assert not fit.determined["f[T.c]"]
    assert seen[0][1][:, 0, 0].sum() == N - 30


@pytest.mark.parametrize(("middle", "degree"), [(2005, 4), (2005, 5), (0, 5), (2459180, 2)])
def test_rows_are_white_as_far_as_rounding_lets_them(middle, degree):
    x = middle + np.random.default_rng(0).integers(-15, 16, 4096) * 1.0
    raw = np.vander(x, degree + 1, increasing=True)
    loc, scale = np.append(0, raw[:, 1:].mean(axis=0)), np.append(1, raw[:, 1:].std(axis=0))
    rounding = np.finfo(float).eps * np.abs(raw).max(axis=0) / scale
    white = (raw - loc) / scale @ start_map((raw - loc) / scale, np.zeros(degree + 1, bool), True, rounding)
    np.testing.assert_allclose(white.T @ white / len(x), np.eye(degree + 1), atol=0.02)


def test_what_rounding_makes_of_a_repeated_column_is_not_taken_for_a_direction():
    """A sum of two columns, and cubes of a day: what is left of them is the last digits."""
    rng = np.random.default_rng(1)
    x, z = rng.normal(50, 10, (2, 4096))
    day = 2459180 + rng.integers(-180, 181, 4096) * 1.0
    for raw in (np.column_stack([x, z, x + z, x / 3]), np.column_stack([day, day**2, day**3])):
        raw = np.column_stack([np.ones(4096), raw])
        loc, scale = np.append(0, raw[:, 1:].mean(axis=0)), np.append(1, raw[:, 1:].std(axis=0))
        rounding = np.finfo(float).eps * np.abs(raw).max(axis=0) / scale
        W = start_map((raw - loc) / scale, np.zeros(raw.shape[1], bool), True, rounding)
        white = (raw - loc) / scale @ W
        assert np.linalg.eigvalsh(white.T @ white / 4096)[0] < 1e-12
