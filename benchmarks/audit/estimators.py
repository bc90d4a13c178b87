"""The audited public functions, each by its own budget and release, on neighbours that strain every step."""

import math
from dataclasses import replace

import numpy as np

import dpstats
from audit.harness import (
    DELTA,
    Broken,
    Case,
    Release,
    calls,
    divided,
    each_step,
    pair,
    transcripts,
    unlimited,
)
from audit.mechanisms import key, ladder, louder
from audit.search_replays import everywhere
from audit.tapes import patched
from dpstats.data import groups as _groups
from dpstats.errors import ReleaseFailed
from dpstats.linear import refusals
from dpstats.location import bounding_box, median, tukey_median
from dpstats.location import mean as location_mean
from dpstats.mechanisms import deep_line as _deep_line
from dpstats.mechanisms import deep_point as _deep_point
from dpstats.mechanisms import exponential, noise, rounds, student
from dpstats.mechanisms import median_slope as medsweep_slopes
from dpstats.regression import (
    deepest,
    gradient_descent,
    medsweep,
    theil_sen,
)
from dpstats.selection import kendall, pairs, sub_lasso

# -- Gaussian estimators: transcripts --------------------------------------------------------------------

EMPTY = {"x": np.empty(0), "y": np.empty(0)}
FAR = {"x": np.array([1e6]), "y": np.array([1e9])}
UNIT = {"x": (-1.0, 1.0), "y": (-1.0, 1.0)}


def _estimate(fit):
    """The first estimate as an integer on the lattice of doubles."""
    return key(fit.estimates[0])


def _gaussian_cases():
    def case(name, neighbours, build, broken, **more):
        return Case(name, neighbours, transcripts(build), broken, "gdp", DELTA, system=False, **more)

    far = "no row, and one beyond every limit"
    yield case("adassp", far, pair(dpstats.adassp, "y ~ x", EMPTY, FAR, standardize=False),
               Broken("products not shortened", unlimited("product_gradient", 4), runs=800), runs=12_000,
               quick=800)  # fmt: skip
    yield case("boosted_adassp", far, pair(dpstats.boosted_adassp, "y ~ x", EMPTY, FAR, standardize=False,
               rounds=5),
               Broken("products not shortened", unlimited("product_gradient", 4), runs=800),
               runs=8_000)  # fmt: skip
    yield case("gradient_descent", far, pair(dpstats.gradient_descent, "y ~ x", EMPTY, FAR,
               standardize=False, clip=1.0, steps=10),
               Broken("ten steps, each at the whole budget", each_step(gradient_descent, math.sqrt(10)),
               runs=3_000),
               runs=12_000)  # fmt: skip
    ends = {"y": np.empty(0)}, {"y": np.ones(1)}
    yield case("mean", "no row, and one at the end of the bounds", pair(dpstats.mean, "y ~ 1", *ends,
               bounds={"y": (-1.0, 1.0)}),
               Broken("noise a third", louder(3), runs=4_000), runs=15_000)  # fmt: skip
    many = np.random.default_rng(0).standard_normal(2000)
    yield case("mean, no bounds", "2,000 normal rows, and one far out more",
               pair(dpstats.mean, "y ~ 1", {"y": many}, {"y": np.append(many, 1e6)}),
               Broken("noise a quarter", louder(4), runs=1_500), runs=2_000)  # fmt: skip

    def refusal():
        """Whether too few rows were refused, and what the ledger kept."""

        def run(table, rng):
            ledger = dpstats.Ledger(":memory:", eps=10, delta=0.1)
            try:
                dpstats.mean("y ~ 1", table, eps=1, ledger=ledger)
                return ledger.remaining()[0]
            except ReleaseFailed:
                return -ledger.remaining()[0]

        rows = np.linspace(-1, 1, 1000)
        spends = Release(dpstats.mean, "y ~ 1", {"y": rows}, eps=1).guarantee.spends
        scale = next(s.mu for s in spends if s.step == "scales")
        need = refusals.visible(1, scale) / location_mean._SCALE_NOISE
        return run, {"y": rows[: math.ceil(need) - 1]}, {"y": rows[: math.ceil(need)]}

    def exact(blocks, mu, rng):
        return float(sum(len(X) for X, _ in blocks))

    yield Case("mean, refusal and ledger", "one row fewer than needed, and as many", calls(refusal),
               Broken("refused by the exact count", ((location_mean, "release_count", exact),), runs=300),
               "gdp", DELTA, runs=800)  # fmt: skip


# -- exponential mechanisms ------------------------------------------------------------------------------


def _exponential_cases():
    real = exponential.log_weights
    twice = (
        (exponential, "log_weights", lambda cells, q, eps, neighbours: real(cells, q, 2 * eps, neighbours)),
    )
    rows, bounds = ladder(5, 1, 5)
    more, _ = ladder(5, 1, 6)
    yield Case("median", "a row added at the upper end",
               calls(pair(dpstats.median, "y ~ 1", {"y": rows}, {"y": more}, alpha=None,
               bounds={"y": bounds}, fit=True), _estimate),
               Broken("factor 2 dropped", twice), runs=12_000)  # fmt: skip
    yield Case("median, with its interval", "a row added at the upper end",
               transcripts(pair(dpstats.median, "y ~ 1", {"y": rows}, {"y": more}, bounds={"y": bounds})),
               Broken("all steps at twelve times their eps", _all_dearer, runs=1_000),
               runs=2_000)  # fmt: skip
    rows, bounds = ladder(2, 2, 9, 20)
    more, _ = ladder(3, 2, 9, 20)
    yield Case("quantile", "first quartile; a row added at the lower end",
               calls(pair(dpstats.quantile, "y ~ 1", {"y": rows}, {"y": more}, q=0.25, alpha=None,
               bounds={"y": bounds}, fit=True), _estimate),
               Broken("factor 2 dropped", twice), runs=12_000)  # fmt: skip
    top = 2.0**200
    columns = [np.repeat(np.array([0.0, 1.0, top]), counts) for counts in ((18, 2, 0), (18, 2, 1))]
    whole = ((bounding_box, "per_round", lambda eps, delta, k: eps),)
    yield Case("bounding_box", "four columns; a row added at all upper ends",
               calls(pair(dpstats.bounding_box, "a + b + c + d ~ 1", *(dict.fromkeys("abcd",
               c) for c in columns),
                           bounds=dict.fromkeys("abcd", (0.0, top)), fit=True),
                     lambda fit: float(sum(fit.estimates > 1))),
               Broken("every column at the whole eps", whole), runs=8_000)  # fmt: skip
    low, high = (
        {"x": np.repeat([-1.0, 0.0, 1.0], c), "y": np.repeat([-1.0, 0.0, 1.0], c)}
        for c in ((6, 1, 5), (5, 1, 6))
    )
    yield Case("medsweep, sequential", "a row moved from end to end",
               transcripts(pair(dpstats.medsweep, "y ~ x", low, high, bounds=UNIT)),
               Broken("every median at the whole eps", ((exponential, "log_weights", lambda cells, q, eps,
               n: real(cells, q, 4 * eps, n)),
                                                        (exponential, "quantile", _dearer(4))), runs=1_500),
                                                        runs=4_000,
               setup=lambda: patched((medsweep, "_ROWS", 0)))  # fmt: skip
    yield Case("theil_sen", "a response moved from end to end", _theil_sen,
               Broken("pairs counted without noise", ((theil_sen, "laplace", lambda value, *_: value),),
                      _theil_sen_refusal, 500,
                      "as many pairs as needed, and a row unusable"), runs=4_000)  # fmt: skip


def _all_dearer():
    """Each exponential mechanism of a median with its interval at twelve times its budget."""
    return divided(
        median,
        lambda b: replace(
            b,
            eps_size=12 * b.eps_size,
            eps_estimate=12 * b.eps_estimate,
            intervals=tuple(replace(i, eps=12 * i.eps) for i in b.intervals),
        ),
    )


def _deepest_case():
    """All rows at one value of the covariate, where depth is that of a median: it falls below 0.4 and rises
    above."""
    first, second = (
        {"x": np.zeros(10), "y": np.repeat([-1.0, 0.4, 1.0], counts)} for counts in ((5, 1, 4), (4, 1, 5))
    )
    build = pair(
        dpstats.deepest_regression,
        "y ~ x",
        first,
        second,
        at=(-1, 1),
        bounds={"y": (-1.0, 1.0)},
        intervals=None,
        fit=True,
    )
    real = _deep_line._draw
    yield Case(
        "deepest_regression",
        "a row moved from end to end",
        calls(build, lambda fit: fit.estimates[0]),
        Broken(
            "factor 2 dropped",
            ((_deep_line, "_draw", lambda x, y, rate, *more: real(x, y, 2 * rate, *more)),),
            runs=12_000,
        ),
        runs=12_000,
        setup=lambda: patched((deepest, "_ROWS", 0)),
    )


def _tukey_median_case():
    """Three equal columns: depths along them fall below 0.4 and rise above."""
    first, second = (
        dict.fromkeys("xyz", np.repeat([-1.0, 0.4, 1.0], counts)) for counts in ((5, 1, 4), (4, 1, 5))
    )
    bounds = dict.fromkeys("xyz", (-1.0, 1.0))
    build = pair(dpstats.tukey_median, "x + y + z ~ 1", first, second, bounds=bounds, directions=10)
    real = _deep_point.depths

    def few_rows():
        return patched((tukey_median, "_ROWS", {"bounds": 0, "no bounds": 0}))

    yield Case(
        "tukey_median",
        "a row moved from end to end",
        transcripts(build),
        Broken(
            "rounds at forty times their eps", ((_deep_point, "depths", lambda *a: 40 * real(*a)),), runs=500
        ),
        runs=1_000,
        system=False,
        setup=few_rows,
    )


def _dearer(factor):
    real = exponential.quantile
    return lambda x, q, eps, rng, **more: real(x, q, factor * eps, rng, **more)


def _theil_sen(runs, rng):
    """How many of the two medians lie above 0: every line but one is 0 at both points."""
    n, share = 640, 0.1
    high = float(exponential.keys_to_floats(int(share * key(1.0))))
    x, y = np.arange(n, dtype=float), np.zeros(n)
    tables = [{"x": x, "y": np.where(x == n // 2, end, y)} for end in (-1.0, high)]
    release = Release(
        dpstats.theil_sen, "y ~ x", tables[0], eps=1, matchings=1, bounds={"x": (0, n - 1), "y": (-1.0, high)}
    )
    drawn = []
    real = theil_sen._median

    def watched(*arguments):
        drawn.append(real(*arguments))
        return drawn[-1]

    def run(rows, rng):
        drawn.clear()
        release(rows, rng)
        return float(sum(m > 0 for m in drawn)) if len(drawn) == 2 else math.nan

    with patched((theil_sen, "_median", watched)):
        return calls(lambda: (run, *map(release.rows, tables)))(runs, rng)


def _theil_sen_refusal(runs, rng):
    """Whether too few pairs were refused."""
    n = 608
    x = np.arange(n, dtype=float)
    tables = {"x": x, "y": x}, {"x": x, "y": np.where(x == 0, np.nan, x)}
    release = Release(
        dpstats.theil_sen, "y ~ x", tables[0], eps=1, matchings=1, bounds={"x": (0, n - 1), "y": (0, n)}
    )
    return calls(lambda: (lambda rows, rng: release(rows, rng) is None, *map(release.rows, tables)))(
        runs, rng
    )


# -- pure Laplace, smooth sensitivity --------------------------------------------------------------------


def _laplace_cases():
    rows = {name: np.repeat([0.0, 1.0], [180, 20]) for name in ("x", "y")}
    more = {name: np.append(column, 1.0) for name, column in rows.items()}
    unit = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
    yield Case("noisy_stats", "most rows at a corner, and one more at the opposite",
               transcripts(pair(dpstats.noisy_stats, "y ~ x", rows, more, bounds=unit)),
               Broken("noise a quarter", louder(4), runs=5_000), system=False, runs=15_000)  # fmt: skip


def _smooth_cases():
    """Three to five rows on a grid, found by search: the estimate moves by the whole smooth bound of
    either."""
    delta = 0.01

    def third():
        real = noise.laplace_on_grid
        return ((noise, "laplace_on_grid", lambda values, scale, *more: real(values, scale / 3, *more)),)

    def case(name, build, broken=None, **more):
        return Case(
            name,
            "3 to 5 rows of a grid, one replaced",
            transcripts(build),
            broken or Broken("noise a third", third, runs=3_000),
            **({"delta": delta} | more),
        )

    def table(x, y):
        return {"x": np.array(x, dtype=float), "y": np.array(y, dtype=float)}

    bounds = {"x": (0.0, 3.0), "y": (0.0, 1.0)}
    real = student.student
    heavy = {"mechanism": "smooth", "bounds": {"y": (0, 1)}}
    ones = {"y": np.array([1.0, 0, 0, 1, 1])}, {"y": np.array([0.0, 0, 0, 1, 1])}
    yield case(
        "median, smooth",
        pair(dpstats.median, "y ~ 1", *ones, **heavy),
        Broken("noise a quarter", ((student, "student", lambda rng: real(rng) / 4),), runs=3_000),
        delta=0.0,
        runs=8_000,
    )
    lines = table([3, 1, 0, 2, 3], [0, 1, 0, 0, 1]), table([0, 1, 0, 2, 3], [1, 1, 0, 0, 1])
    smooth = {"mechanism": "smooth", "delta": delta, "at": (0, 3), "bounds": bounds}
    yield case(
        "deepest_regression, smooth",
        pair(dpstats.deepest_regression, "y ~ x", *lines, **smooth),
        runs=5_000,
    )
    points = table([3, 3, 1], [1, 1, 0]), table([1, 3, 1], [0, 1, 0])
    yield case(
        "tukey_median, smooth",
        pair(
            dpstats.tukey_median,
            "x + y ~ 1",
            *points,
            mechanism="smooth",
            delta=delta,
            bounds=bounds,
        ),
        runs=3_000,
    )
    swept = table([3, 2, 3], [1, 0, 0.5]), table([1, 2, 3], [1, 0, 0.5])
    x = np.arange(9.0)
    tied = ({"x": x, "y": (x > cut).astype(float)} for cut in (6, 5))

    def local(u, w, clamp, beta):
        return medsweep_slopes.slope_sensitivity(u, w, np.sort(u), np.sort(w), clamp, 0)

    joint = {"variant": "joint", "clamp": 1.0, "delta": delta}
    not_smooth = Broken(
        "local sensitivity, not smoothed",
        ((medsweep, "smooth_slope_bound", local),),
        transcripts(pair(dpstats.medsweep, "y ~ x", *tied, **joint)),
        500,
        "nine rows of which two, or three, are not 0",
    )
    yield case("medsweep, joint", pair(dpstats.medsweep, "y ~ x", *swept, **joint), not_smooth, runs=6_000)


# -- boxes, choices, groups ------------------------------------------------------------------------------


def _choice_cases():
    y = np.arange(8.0)
    first = {"a": np.abs(y - 3.5), "b": y, "y": y}
    second = {"a": np.append(first["a"], 99.0), "b": np.append(y, -99.0), "y": np.append(y, 99.0)}
    kendall_case = pair(dpstats.select_features, "y ~ a + b", first, second, k=1, method="kendall")

    def chose_a(terms):
        return float(terms[0] == "a")

    yield Case("select_features, kendall",
               "8 rows, and one that is concordant with one term and discordant with the other",
               calls(kendall_case, chose_a),
               Broken("width taken as the largest move", ((kendall, "WIDTH", {"add-remove": 1.25}),)),
               runs=20_000)  # fmt: skip

    y, other = np.arange(8.0), np.array([1.0, 0, 3, 2, 5, 4, 7, 6])
    before = {"a": other, "b": y, "y": y}
    after = {"a": np.append(other, 99.0), "b": np.append(y, -99.0), "y": np.append(y, 99.0)}
    tenth = pairs.WIDTH["add-remove"] / 10
    yield Case(
        "select_features, pairs",
        "8 rows, and one that is concordant with one term and discordant with the other",
        calls(pair(dpstats.select_features, "y ~ a + b", before, after, k=1, method="pairs"), chose_a),
        Broken("width a tenth", ((pairs, "WIDTH", {"add-remove": tenth}),), runs=4_000),
        runs=8_000,
    )

    def peeling():
        step = rounds.per_round(1.0, DELTA, 10)

        def run(scores, rng):
            for _ in range(10):
                kendall.choose(np.array(scores), 2.5, step, rng)

        return run, (0.0, 0.0), (1.25, -1.25)

    yield Case("rounds.per_round", "ten rounds whose two scores move apart by the width",
               transcripts(peeling),
               Broken("every round at the whole eps", ((rounds, "per_round", lambda eps, delta, k: eps),),
                      runs=1_500),
               delta=DELTA, runs=4_000, system=False)  # fmt: skip
    blank = {"a": np.zeros(100), "b": np.zeros(100), "y": np.zeros(100)}
    voter = {name: np.append(column, float(name != "b")) for name, column in blank.items()}
    yield Case("select_features, sub_lasso", "100 blank rows, and one that votes",
               calls(pair(dpstats.select_features, "y ~ a + b", blank, voter, k=1, method="sub_lasso"),
                     chose_a),
               Broken("every subset holds all rows", ((sub_lasso, "_count_votes", everywhere),), runs=1_000),
               runs=3_000)  # fmt: skip


def _groups_case():
    labels = "abcdefghijkl"
    rows, bounds = ladder(5, 1, 5, 0.7)
    more, _ = ladder(5, 1, 6, 0.7)

    def build():
        def run(y, rng):
            table = {"y": y, "g": ["a"] * len(y)}
            declared = {"bounds": {"y": bounds}, "levels": {"g": list(labels)}}
            fits = dpstats.median("y ~ 1", table, eps=1, alpha=None, by="g", **declared)
            above = [fits[label].params.iloc[0] > 1.0 for label in labels]
            return float(sum(above) if all_see[0] else above[0])

        return run, rows, more

    # what an opponent looks at: the group of the row, or all of them where all have seen it
    all_see = [False]

    def every():
        def all_rows(self, i):
            all_see[0] = True
            return self.source(slice(0, self._ends[-1]))

        return ((_groups.GroupedRows, "group", all_rows),)

    yield Case(
        "median by groups",
        "twelve groups, a row added in one",
        calls(build),
        Broken("every group sees all rows", every, runs=4_000),
        runs=4_000,
    )


CASES = (
    *_gaussian_cases(),
    *_exponential_cases(),
    *_deepest_case(),
    *_tukey_median_case(),
    *_laplace_cases(),
    *_smooth_cases(),
    *_choice_cases(),
    *_groups_case(),
)
