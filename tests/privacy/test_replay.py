"""The transcript of a release is all that it tells: played back over other rows it gives the same result.

Every private step of an estimator is recorded on one data set, with what must be public about it (its law,
sensitivity, budget, size; how rows are thinned). Then each step answers as recorded while the estimator runs
on other rows. Whatever differs then went around the mechanisms. On a neighbour, no statistic behind additive
noise may move by more than its sensitivity.
"""

import contextlib
import functools
import importlib
import sys
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pytest

import dpstats
from dpstats._estimators import AUDITED, ESTIMATORS
from dpstats.engines import local
from dpstats.estimation import pipeline as _estimate
from dpstats.formula import units as formula_units
from dpstats.linear import deep_fit, loss
from dpstats.linear import prepare as _prepare
from dpstats.mechanisms import (
    deep_line,
    exponential,
    halving,
    noise,
    rounds,
    size,
    spread,
    standardize,
    tukey,
)
from dpstats.mechanisms import deep_point as _deep_point
from dpstats.mechanisms import rank_interval as _rank_interval
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.student import StudentNoise
from dpstats.privacy.conversions import gdp_mu
from dpstats.regression import deepest, noisy_stats, ols
from dpstats.selection import sub_lasso

sys.path.insert(0, str(Path(__file__).parents[1]))
from estimators import BOUNDS, public_rows  # noqa: E402

SEED = 1


class Own(Randomness):
    """The source of randomness of the call; a step that draws from any other is a mistake."""

    def __init__(self, seed=None):
        super().__init__(seed)
        self.seed = seed


class Transcript:
    """Private steps, recorded and played back.

    Attributes
    ----------
    steps : list of (name, public facts, statistic, answer)
    moved : list of (name, by how much the statistic moved in units of its sensitivity)
        Filled while playing.
    """

    def __init__(self, seed=SEED):
        self.seed = seed
        self.steps, self.moved, self.position, self.within = [], [], None, False

    def play(self):
        self.position, self.moved = 0, []
        return self

    def step(self, name, facts, statistic, move, draw):
        if self.within:
            return draw()
        if self.position is None:
            self.within = True
            answer = draw()
            self.within = False
            self.steps.append((name, facts, statistic, answer))
            return answer
        assert self.position < len(self.steps), f"a step more than before: {name}"
        before = self.steps[self.position]
        assert before[:2] == (name, facts), (
            f"step {self.position} is public: {before[:2]}, now {(name, facts)}"
        )
        self.position += 1
        if move is not None:
            self.moved.append((f"{self.position}: {name}", move(before[2], statistic)))
        return before[3]

    def wrapped(self, target, attribute, facts, statistic=None, move=None):
        real = getattr(target, attribute)

        def step(*args, **kwargs):
            (rng,) = (a for a in (*args, *kwargs.values()) if isinstance(a, Randomness))
            assert type(rng) is Own and rng.seed == self.seed, f"{attribute} draws from a source of its own"
            value = None if statistic is None else statistic(*args)
            return self.step(
                attribute, facts(*args, **kwargs), value, move and move(*args), lambda: real(*args, **kwargs)
            )

        return mock.patch.object(target, attribute, step)

    def wherever(self, modules, home, attribute, *how):
        """Wrapped in its module and wherever it is imported to."""
        real = getattr(home, attribute)
        for module in modules:
            if vars(module).get(attribute) is real:
                yield self.wrapped(module, attribute, *how)

    @contextlib.contextmanager
    def inserted(self):
        """Within, all private steps are steps of the transcript; every step that was recorded must be
        played."""
        with contextlib.ExitStack() as stack:
            for patch in self._patches():
                stack.enter_context(patch)
            yield
        assert self.position in (None, len(self.steps)), "steps are missing"

    def _patches(self):
        yield mock.patch.object(_estimate, "Randomness", Own)
        # a simulation without rows, with a seed of its own
        yield mock.patch.object(deep_fit, "pivot_variance", lambda m, k, eps: 1.0)
        yield self.wrapped(
            noise,
            "_add",
            lambda v, law, s, budget, rng: (law, float(s), budget, np.shape(v)),
            lambda v, *_: np.array(v),
            distance,
        )
        yield self.wrapped(
            noise, "laplace_on_grid", lambda values, scale, exponent, rng: (len(values), exponent)
        )
        yield self.wrapped(StudentNoise, "release", lambda noise, values, bound, rng: noise)
        yield self.wrapped(
            standardize,
            "_descend",
            lambda hist, below, n, group, share, rng: (hist.shape, group.mu_loc, share),
        )
        yield self.wrapped(
            _rank_interval.RankInterval, "release", lambda interval, x, centre, rng: (interval, centre)
        )
        modules = [module for name, module in list(sys.modules.items()) if name.startswith("dpstats.")]
        for home, name, facts in (
            (noise, "discrete_laplace", lambda value, eps, rng: eps),
            (exponential, "quantile", lambda x, q, eps, rng, **more: (q, eps, *more.items())),
            (
                halving,
                "place",
                lambda keys, ties, f, eps, low, high, rng: (eps, f, low, high),
            ),
            (size, "release_size", lambda x, eps, rng, largest: (eps, largest)),
            (spread, "half_mass_spread", lambda x, eps, rng: eps),
            (spread, "typical_distance", lambda x, eps, rng: eps),
            (rounds, "choose", lambda scores, width, eps, rng: (len(scores), width, eps)),
            (deep_line, "deep_line", lambda x, y, eps, candidates, rng: (eps, len(candidates.pieces))),
        ):
            yield from self.wherever(modules, home, name, facts)
        # public: they may depend on what was released, and on coins
        yield self.wrapped(
            _deep_point, "candidates", lambda centre, least, box, rng: (tuple(centre), least, np.shape(box))
        )
        yield self.wrapped(tukey, "sample", lambda boxes, t, eps, rng: (boxes.S.shape, t, eps))
        for module in (_prepare, sub_lasso):
            yield self._sampled(module)

    def _sampled(self, module):
        def sample(blocks, halvings, rng):
            assert type(rng) is Own and rng.seed == self.seed, "sample draws from a source of its own"
            self.step("sample_rows", halvings, None, None, lambda: None)
            # neighbours are compared with the coins of the other rows as they were
            return local.sample(blocks, halvings, Own(2))

        return mock.patch.object(module, "sample", sample)


def distance(values, law, sensitivity, budget, rng):
    """How far two statistics are apart, in units of the sensitivity that the noise was drawn for."""
    order = 2 if law == "gaussian" else 1
    return lambda one, other: float(np.linalg.norm(np.ravel(one - other), order)) / sensitivity


#: Formula and arguments: the calls of the list, and further ones.
CASES = {name: (listed.formula, listed.own) for name, listed in ESTIMATORS.items()} | {
    "ols, wide": ("y ~ x + z", {"winsorize": False, "cov_type": "bootstrap"}),
    "ols, bounds": ("y ~ x", {"bounds": BOUNDS}),
    "ols, weights": ("y ~ x + z", {"weights": "np.exp(z)"}),
    "ols, weights of units": ("y ~ x + z", {"weights": "np.exp(z)", "unit": "id"}),
    "ols, square": ("y ~ x + I(x ** 2) + z", {}),
    **{
        f"{name}, rare": (f"{y} ~ x + I(1.0 * (z > 2.9))", {})
        for name, y in (("ols", "y"), ("huber", "y"), ("boosted_adassp", "y"), ("logit", "I(y > 5)"))
    },
    "adassp, raw": ("y ~ x + z", {"standardize": False, "clip": 2.0}),
    "gradient_descent": ("y ~ x + z", {"steps": 5}),
    "mean": ("x + y ~ 1", {"clip": 2.0}),
    "mean, followed": ("x + y ~ 1", {}),
    "bounding_box": ("x + y ~ 1", {}),
    "select_features, pairs": ("y ~ x + z", {"k": 1, "method": "pairs"}),
    "select_features, lasso": ("y ~ x + z", {"k": 1, "method": "sub_lasso"}),
    "ols, select": ("y ~ x + z", {"select": 1}),
    "ols, unit": ("y ~ x + z", {"unit": "id"}),
    "adassp, unit": ("y ~ x + z", {"unit": "id"}),
    "logit, unit": ("I(y > 5) ~ x + z", {"unit": "id"}),
    "medsweep, joint": ("y ~ x + z", {"variant": "joint", "clamp": 10}),
    "median, smooth": ("y ~ 1", {"mechanism": "smooth", "bounds": BOUNDS}),
    "tukey_median": ("x + y ~ 1", {"bounds": BOUNDS}),
    "quantile, several": ("y ~ 1", {"q": [0.5, 0.25, 0.9]}),
}
#: Fits that are public where they are diagnosed, by the function that makes them.
FITTED = {"ols": "y ~ x + z", "logit": "I(y > 5) ~ x + z", "poisson": "np.floor(np.abs(y)) ~ x + z"}
EXPLORED = ("describe", *(f"diagnose, {name}" for name in FITTED))
CASES |= {case: (None, {}) for case in EXPLORED}
# every private step can be recorded: all modules are there
for _listed in ESTIMATORS.values():
    importlib.import_module(_listed.module)


def name_of(case):
    return case.split(",")[0]


def rows_are_public(case):
    formula, own = CASES[case]
    return case not in EXPLORED and public_rows(name_of(case), formula=formula, **own)


def rows(n, seed=0, scale=1.0):
    g = np.random.default_rng(seed)
    x, z = scale * g.standard_normal((2, n))
    return pd.DataFrame({"x": x, "z": z, "y": 5 + 2 * x - z + scale * g.standard_normal(n)})


@functools.cache
def fitted(name):
    return getattr(dpstats, name)(FITTED[name], rows(12_000, 9), eps=4, seed=9)


def release(case, data, seed=SEED):
    if case == "describe":
        cut = pd.cut(data["x"], [-np.inf, 0, 1], labels=["a", "b"])
        # of u three quarters are 0: quartiles alone have no scale
        table = data.assign(
            w=cut, v=cut.cat.rename_categories(["c", "d"]), u=data["z"].where(data["x"] > 0.7, 0)
        )
        return dpstats.describe(table, eps=4, correlation=True, seed=seed)
    if case in EXPLORED:
        return dpstats.diagnose(fitted(case.removeprefix("diagnose, ")), data, eps=4, seed=seed)
    formula, arguments = CASES[case]
    if "unit" in arguments:
        data = data.assign(id=np.arange(len(data)) // 3)
    return getattr(dpstats, name_of(case))(formula, data, eps=4, seed=seed, **arguments)


def number(case):
    """Of rows: few for the exact depths and the joint search."""
    if case in EXPLORED:
        return 12_000
    return 300 if case == "medsweep, joint" or ESTIMATORS[name_of(case)].small[0] <= 500 else 12_000


@pytest.fixture(autouse=True)
def thinning(monkeypatch):
    """Rows are thinned, so that what decides how many are kept is looked at."""
    monkeypatch.setattr(_prepare, "_ENOUGH_ROWS", 1000)
    monkeypatch.setattr(sub_lasso, "_MOST_SUBSETS", 20)
    monkeypatch.setattr(sub_lasso, "_MOST_ROWS", 20)


def replayed(case):
    """What a release is, and what it becomes over other rows."""
    n = number(case)
    transcript, others = Transcript(), [rows(n, 5, 30.0)]
    if rows_are_public(case):
        # the number of rows handed in is public, that of the usable ones is not
        others[0].loc[::3, "y"] = np.nan
    else:
        others += [rows(40, 2), rows(3 * n, 3, 1e-3)]
    with transcript.inserted():
        first = release(case, rows(n))
    for other in others:
        with transcript.play().inserted():
            yield first, release(case, other)


@pytest.fixture(autouse=True)
def fit_is_made_before(request):
    """That which is diagnosed: its steps are none of the transcript's."""
    case = getattr(request.node, "callspec", None) and request.node.callspec.params.get("case")
    if case in EXPLORED and case != "describe":
        fitted(case.removeprefix("diagnose, "))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_other_rows_change_nothing_when_the_steps_answer_as_before(case):
    for first, again in replayed(case):
        assert again == first if case.startswith("select") else again.to_dict() == first.to_dict()


@pytest.mark.parametrize("case", CASES)
def test_every_step_of_an_unseeded_release_draws_from_the_system(case):
    with Transcript(None).inserted(), contextlib.suppress(dpstats.ReleaseFailed):
        release(case, rows(number(case)), None)


def test_a_refusal_is_a_function_of_the_released_count():
    for case in ("ols", "huber", "adassp", "mean", "tukey_em"):
        transcript = Transcript()
        with transcript.inserted(), pytest.raises(dpstats.ReleaseFailed) as few:
            release(case, rows(30))
        with transcript.play().inserted(), pytest.raises(dpstats.ReleaseFailed) as many:
            release(case, rows(12_000))
        assert str(few.value) == str(many.value)


@pytest.mark.slow
def test_a_refusal_for_many_columns_is_a_function_of_the_released_count():
    names = [f"x{j}" for j in range(60)]
    formula, bounds = "y ~ " + " + ".join(names), dict.fromkeys(["y", *names], (-9, 9))

    def wide(n):
        return pd.DataFrame(np.random.default_rng(n).standard_normal((n, 61)), columns=["y", *names])

    transcript = Transcript()
    with transcript.inserted(), pytest.raises(dpstats.ReleaseFailed, match="61 columns") as few:
        dpstats.adassp(formula, wide(300), eps=4, seed=SEED, bounds=bounds)
    with transcript.play().inserted(), pytest.raises(dpstats.ReleaseFailed) as many:
        dpstats.adassp(formula, wide(30_000), eps=4, seed=SEED, bounds=bounds)
    assert str(few.value) == str(many.value)


HOSTILE = [(1e9, -1e9, 1e9), (3.0, -3.0, 1e6), (0.0, 0.0, -1e6), (1.0, 1.0, 5.0), (-1e3, 2.0, 0.0)]
"""A record: x, z and y."""
FEW = (0.5, 3.5, -40.0)
"""One of those that leave."""
NOT_ADDITIVE = ("median", "quantile", "bounding_box", "select_features", "theil_sen", "medsweep",
                "deepest_regression", "tukey_median")  # fmt: skip
ADDITIVE = [case for case in CASES if name_of(case) not in NOT_ADDITIVE]


def largest_move(case):
    """The largest move of a statistic when a row is replaced (where rows are public) or added, over its
    sensitivity."""
    data, transcript, worst = rows(number(case)), Transcript(), (0.0, "")
    with transcript.inserted():
        release(case, data)
    missing = (np.nan, np.nan, np.nan)
    for record in [*HOSTILE, *[missing] * (case in EXPLORED), *[FEW] * case.endswith("rare")]:
        other = data.copy()
        other.loc[0 if rows_are_public(case) else len(data)] = record
        with transcript.play().inserted():
            release(case, other)
        worst = max(worst, *((size, step) for step, size in transcript.moved))
    return worst


@pytest.mark.parametrize("case", [case for case in CASES if case.endswith("rare")])
def test_rare_rows_leave_in_these(case):
    """Not before their direction is seen to be hidden."""
    fit = release(case, rows(number(case)))
    assert fit.params.iloc[2] == 0 and fit.bse.iloc[:2].notna().all()
    assert any("which are too few for the noise: I(" in note for note in fit.notes)


@pytest.mark.slow
@pytest.mark.parametrize("case", ADDITIVE)
def test_no_row_moves_a_step_by_more_than_its_sensitivity(case, monkeypatch):
    if "unit" in CASES[case][1]:
        # units come in the order of hashes, and so do their coins: those of others are to stay as they were
        real = formula_units.drawn

        def same(rows, usable, coins):
            return real(rows, usable, np.full_like(coins, 0.3))

        monkeypatch.setattr(formula_units, "drawn", same)
        monkeypatch.setattr(_prepare, "_ENOUGH_ROWS", 10**9)
    size, step = largest_move(case)
    assert size <= 1, step
    # an experimental one may have no additive noise
    assert size > 0.3 or (not step and case not in EXPLORED and name_of(case) not in AUDITED)


def spent(case):
    """The guarantee of a release, and the sum of the budgets of its steps, each of which is pure by
    itself."""
    transcript = Transcript()
    with transcript.inserted():
        fit = release(case, rows(number(case)))
    total = 0.0
    for name, facts, *_ in transcript.steps:
        if name == "quantile":
            _, eps, *more = facts
            # a record is in one pair of each of ten matchings, whose lines have the bounds of the response
            total += eps * (10 if case == "theil_sen" and ("bounds", None) in more else 1)
        elif name == "release":
            total += (facts[0] if isinstance(facts, tuple) else facts).eps
        elif name == "_add":
            law, _, eps, shape = facts
            assert law == "laplace" and shape == ()
            total += eps
        elif name == "sample_rows":
            assert case == "select_features, lasso"
        elif name == "candidates":
            assert case == "tukey_median"
        elif name == "place":
            # three draws on two levels: the cells of a level are disjoint
            total += facts[0] * 2 / 3
        elif name == "choose":
            total += facts[2]
        else:
            total += facts[0] if isinstance(facts, tuple) else facts
    return fit.guarantee, total


@pytest.mark.parametrize("case", EXPLORED)
def test_gaussian_steps_add_up_to_the_guarantee(case):
    transcript = Transcript()
    with transcript.inserted():
        release(case, rows(number(case)))
    squares = [
        facts[2] ** 2 if name == "_add" else facts[1] ** 2 * facts[2]
        for name, facts, *_ in transcript.steps
        if name != "sample_rows"
    ]
    assert 0.97 * gdp_mu(4, 1e-6) < np.sqrt(np.sum(squares)) <= gdp_mu(4, 1e-6) * (1 + 1e-9)


PURE = ("median", "quantile, several", "median, smooth", "bounding_box", "noisy_stats", "theil_sen",
"deepest_regression",
        "tukey_median", "select_features", "select_features, pairs", "select_features, lasso")  # fmt: skip


@pytest.mark.parametrize("case", PURE)
def test_budgets_of_the_steps_add_up_to_the_guarantee(case):
    guarantee, total = spent(case)
    assert guarantee.delta == 0
    assert guarantee.eps * (1 - 1e-9) < total <= guarantee.eps * (1 + 1e-12)
    # and so do those that a ledger adds up
    listed = sum(spend.eps for spend in guarantee.spends)
    assert guarantee.eps * (1 - 1e-9) < listed <= guarantee.eps * (1 + 1e-9)


@pytest.mark.parametrize(
    "case", ["medsweep", "theil_sen", "deepest_regression", "median", "bounding_box", "tukey_median"]
)
def test_every_median_is_for_the_relation_of_the_guarantee(case):
    transcript = Transcript()
    with transcript.inserted():
        fit = release(case, rows(number(case)))
    relations = {
        dict(facts[2:]).get("neighbours", "add-remove")
        for name, facts, *_ in transcript.steps
        if name == "quantile"
    }
    assert relations == {fit.guarantee.neighbours}


# -- tests of the tests ----------------------------------------------------------------------------------


def differs(case):
    return any(first.to_dict() != again.to_dict() for first, again in replayed(case))


def test_a_sum_over_the_exact_number_of_rows_is_caught(monkeypatch):
    real = loss.product_gradient
    monkeypatch.setattr(
        loss, "product_gradient", lambda rows, *more: real(rows, *more) / sum(len(V) for V, _ in rows)
    )
    assert differs("ols")


def test_a_refusal_by_the_exact_number_of_rows_is_caught(monkeypatch):
    real, exact = ols.check_directions, []
    monkeypatch.setattr(
        ols,
        "prepare",
        lambda name, blocks, *more, **names: (
            exact.append(sum(len(X) for X, _ in blocks)) or _prepare.prepare(name, blocks, *more, **names)
        ),
    )
    monkeypatch.setattr(ols, "check_directions", lambda *facts: real(*facts[:-1], exact[-1]))
    with pytest.raises(dpstats.ReleaseFailed):
        differs("ols")


def test_a_rate_of_thinning_by_the_exact_number_of_rows_is_caught(monkeypatch):
    real = _prepare.release_count
    # few rows are not refused before that
    monkeypatch.setattr(ols, "check_directions", lambda *facts: None)
    monkeypatch.setattr(
        _prepare,
        "release_count",
        lambda blocks, mu, rng: real(blocks, mu, rng) * 0 + sum(len(X) for X, _ in blocks),
    )
    with pytest.raises(AssertionError, match="is public: \\('sample_rows', 4\\), now"):
        differs("ols, bounds")


def test_a_fixed_seed_is_caught(monkeypatch):
    real = loss.product_gradient
    monkeypatch.setattr(loss, "product_gradient", lambda *a: real(*a[:-1], Randomness(0)))
    with pytest.raises(AssertionError, match="source of its own"):
        differs("ols")


def test_a_budget_that_is_used_twice_is_caught(monkeypatch):
    real = deepest._drawn_release
    monkeypatch.setattr(
        deepest,
        "_drawn_release",
        lambda blocks, budget, rng: real(blocks, replace(budget, eps_line=budget.guarantee.eps), rng),
    )
    guarantee, total = spent("deepest_regression")
    assert total > 1.05 * guarantee.eps


def test_a_sensitivity_that_is_too_small_is_caught(monkeypatch):
    real = noisy_stats.laplace
    monkeypatch.setattr(noisy_stats, "laplace", lambda v, s, eps, rng: real(v, s / 4, eps, rng))
    assert largest_move("noisy_stats")[0] > 1
