"""What engines share, by one that runs its tasks here: however rows are cut, and if a task runs again."""

import io
import pickle

import cloudpickle
import numpy as np
import pandas as pd
import pytest

import dpstats
from dpstats.data import clusters
from dpstats.data.batches import describe_pandas_frame
from dpstats.data.clusters import UnitBuckets
from dpstats.data.schema import Schema
from dpstats.data.sources import open_source
from dpstats.data.units import UnitRows
from dpstats.engines import local, partitions
from dpstats.engines.local import Rows, count_rows, fold, sample
from dpstats.engines.partitions import Coins, Done, Failed, Partitions, Shuffle, added
from dpstats.engines.progress import progress
from dpstats.formula.design import Design
from dpstats.formula.units import UnitBlocks
from dpstats.mechanisms.rng import Randomness

FORMULAS = {
    "ols": "y ~ a + b + C(f, levels=['p', 'q'])",
    "huber": "y ~ a + b",
    "adassp": "y ~ a + b",
    "boosted_adassp": "y ~ a + b",
    "tukey_em": "y ~ a",
    "gradient_descent": "y ~ a",
    "logit": "z ~ a + b",
    "poisson": "k ~ a + I(b ** 2)",
    "mean": "y ~ 1",
    "median": "y ~ 1",
    "select_features": "y ~ a + b",
}


def frame(n=3_000, seed=0):
    g = np.random.default_rng(seed)
    a, b = g.standard_normal(n), 50 + 10 * g.standard_normal(n)
    d = pd.DataFrame({"a": a, "b": b, "f": g.choice(["p", "q"], n), "k": g.poisson(np.exp(0.3 * a))})
    d["y"] = 1 + a + 0.2 * b + g.standard_normal(n)
    d["z"] = (g.random(n) < 1 / (1 + np.exp(-a))).astype(int)
    # a row that is dropped in every partition
    d.loc[::97, "a"] = np.nan
    return d


class Here:
    """An engine whose workers are this process: what goes to them is pickled, and every task runs twice."""

    def __init__(self, parts, broken=(), others=None):
        self.parts, self.broken, self.runs, self.closed = parts, broken, 0, False
        self.attempts, self.others = [], [] if others is None else others

    def run(self, task):
        self.runs += 1
        out = []
        for index, part in enumerate(self.parts):
            there = cloudpickle.loads(cloudpickle.dumps(task))
            if isinstance(part, Failed):
                done = [part]
            else:
                done = [there(object() if index in self.broken else part, index) for _ in range(2)]
            out.append((index, pickle.loads(pickle.dumps(done[-1]))))
        return out[::-1]

    def total(self, task):
        return added([done for _, done in sorted(self.run(task), key=lambda pair: pair[0])])

    def buckets(self):
        return 3

    def gathered(self, shuffle):
        """The last of two attempts at every step, buckets from the last to the first."""
        self.runs += 1

        def there(step, *given):
            return pickle.loads(pickle.dumps(step(cloudpickle.loads(cloudpickle.dumps(shuffle)), *given)))

        cut = [
            there(Shuffle.split, object() if i in self.broken else part) for i, part in enumerate(self.parts)
        ]
        for bucket in range(shuffle.buckets)[::-1]:
            pieces = [c if isinstance(c, Failed) else c.value.get(bucket, []) for c in cut]
            first, again = (there(Shuffle.gather, pieces, bucket) for _ in range(2))
            self.attempts.append((first, again))
            yield again

    def shuffled(self, shuffle):
        self.others.append(Here(list(self.gathered(shuffle))[::-1], others=self.others))
        return self.others[-1]

    def copy(self):
        self.others.append(Here(self.parts, others=self.others))
        return self.others[-1]

    def used(self, task, size):
        pass

    def close(self):
        self.closed = True


class Cut(clusters.ClusterSource):
    """A pandas frame in pieces."""

    def __init__(self, table, cuts, broken=()):
        super().__init__(describe_pandas_frame(table))
        edges = [0, *cuts, len(table)]
        parts = [table.iloc[i:j] for i, j in zip(edges[:-1], edges[1:], strict=True)]
        self.engine, self.parts = Here(parts, broken), parts

    def _engine(self, names):
        return self.engine

    _blocks = staticmethod(clusters.DaskSource._blocks)
    _pieces, _piece = (staticmethod(getattr(clusters.DaskSource, name)) for name in ("_pieces", "_piece"))

    def _batches(self, names, coded):
        yield from (clusters._pandas_batch(names, part) for part in self.parts)


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.slow
def test_releases_are_the_same_however_rows_are_cut(name, monkeypatch):
    """All with an empty partition and one of a row; the cuts themselves by sums, a sample, and one by one."""
    # so few rows that a sample is drawn
    monkeypatch.setattr("dpstats.linear.prepare._ENOUGH_ROWS", 800)
    table, more = frame(), {"k": 1} if name == "select_features" else {}
    others = ((), (1, 64, 1_000, 2_000)) if name in ("adassp", "tukey_em", "gradient_descent") else ()
    here = getattr(dpstats, name)(FORMULAS[name], table, eps=20, seed=1, **more)
    for cuts in ((700, 700, 2_999), *others):
        there = getattr(dpstats, name)(FORMULAS[name], Cut(table, cuts), eps=20, seed=1, **more)
        if name == "select_features":
            assert there == here
        else:
            np.testing.assert_allclose(there.params, here.params, rtol=1e-9)
            if hasattr(here, "bse"):
                np.testing.assert_allclose(there.bse, here.bse, rtol=1e-9)


@pytest.mark.slow
def test_offsets_and_units_and_groups_come_along():
    table = frame().assign(
        t=1.0 + np.arange(3_000) % 3, u=np.arange(3_000) // 3, g=np.tile(["r", "s"], 1_500)
    )
    cut = Cut(table, (500, 1_500))
    for more in ({"exposure": "t"}, {"unit": "u"}, {"by": "g", "levels": {"g": ["r", "s"]}}):
        here = dpstats.poisson("k ~ a", table, eps=20, seed=1, **more)
        there = dpstats.poisson("k ~ a", cut, eps=20, seed=1, **more)
        np.testing.assert_allclose(np.asarray(there.params, float), np.asarray(here.params, float), rtol=1e-9)


UNITS = {
    "ols": {},
    "ols, of units": {"weights": "unit"},
    "ols, within": {"effects": "unit"},
    "ols, of a choice": {"select": 1},
    "huber": {},
    "adassp": {},
    "logit": {},
    "poisson": {"exposure": "t"},
    "mean": {},
    "median": {},
}


def by_unit():
    """Rows of a unit lie anywhere; some have none, and some units have no usable row."""
    g, table = np.random.default_rng(3), frame()
    units = g.integers(0, 700, len(table))
    numbers = np.where(g.random(len(table)) < 0.02, np.nan, units)
    return table.assign(t=1.0 + units % 3, u=numbers, v=np.array([f"p{i}" for i in units], dtype=object))


@pytest.mark.parametrize("case", UNITS)
@pytest.mark.slow
def test_sums_of_units_made_on_workers_are_those_in_memory(case, monkeypatch):
    """To the last bit, with every task run twice, and no row read here; by names where sums are quick, and
    where a row of each unit is drawn."""
    # so few rows that a sample is drawn
    monkeypatch.setattr("dpstats.linear.prepare._ENOUGH_ROWS", 200)
    monkeypatch.setattr(Cut, "_batches", None)
    name, table = case.split(",")[0], by_unit()
    named = (("v", ()),) if name in ("adassp", "mean", "median") else ()
    for unit, cuts in (("u", (700, 700, 2_999)), *named):
        given = {"eps": 20, "seed": 1, "unit": unit, **UNITS[case]}
        cut = Cut(table, cuts)
        here = getattr(dpstats, name)(FORMULAS[name], table, **given)
        there = getattr(dpstats, name)(FORMULAS[name], cut, **given)
        np.testing.assert_array_equal(there.params, here.params)
        if hasattr(here, "bse"):
            np.testing.assert_array_equal(there.bse, here.bse)
        assert cut.engine.others and all(engine.closed for engine in cut.engine.others)


def one_row_each(cut):
    """The values of the rows that are drawn of the units in every bucket, without a seed; and how many units
    each has."""
    design = Design.from_formula("y ~ 1", Schema.of(cut))
    parts = UnitBuckets(cut, ("y",), frozenset(), "u", "0123456789abcdef")
    blocks = UnitBlocks.drawn(design, parts, Randomness())
    return [Y[:, 0] for _, Y in blocks], [Y[:, 0] for _, Y in blocks], parts.sizes()


def test_every_pass_sees_the_same_row_of_each_unit():
    """By a key of the call and the bucket; the values of a unit have one remainder."""
    y = np.arange(4_000.0)
    cut = Cut(pd.DataFrame({"y": y, "u": (y % 500).astype(int)}), (1_000, 2_500))
    first, again, sizes = one_row_each(cut)
    np.testing.assert_array_equal(np.concatenate(first), np.concatenate(again))
    assert sorted(np.concatenate(first) % 500) == list(range(500)) and sum(sizes) == 500
    assert len(sizes) == 3 and [len(part) for part in first] == sizes
    # two calls draw different rows: of eight, the same with probability 1/8, within a binomial bound at 1e-6
    other = np.concatenate(one_row_each(cut)[0])
    assert np.sum(np.sort(np.concatenate(first)) == np.sort(other)) < 110
    # and buckets of a call, too: places of their units are no copies of each other
    least = min(sizes)
    places = [part[:least] // 500 for part in first]
    assert np.sum(places[0] == places[1]) < least / 8 + 5 * np.sqrt(least / 8)


def test_units_of_buckets_are_whole_and_in_their_order():
    table = by_unit()
    parts = UnitBuckets(Cut(table, (5, 1_700)), ("y",), frozenset(), "v", "0123456789abcdef")
    whole = UnitRows(open_source(table), ("y",), frozenset(), "v", "0123456789abcdef")
    rows = [pickle.loads(done.value[0][0]).rows for done in parts._engines[0].parts]
    for name, what in (("v", "keys"), ("y", "numbers")):
        made = np.concatenate([each.array(name, what)[each.together] for each in rows])
        np.testing.assert_array_equal(made, whole.array(name, what)[whole.together])
    assert sum(each.size for each in rows) == whole.size == table["v"].nunique()
    assert min(each.size for each in rows) > 100


def test_units_of_a_partition_that_fails(tmp_path):
    ledger = dpstats.Ledger(tmp_path / "ledger.db", eps=3, delta=1e-5, unit="u")
    cut = Cut(by_unit(), (1_000,), broken=(1,))
    with pytest.raises(dpstats.SchemaError, match="a partition of the data could not be read") as error:
        dpstats.ols("y ~ a", cut, eps=1, ledger=ledger, unit="u")
    assert error.value.__cause__ is None and error.value.__context__ is None
    assert ledger.remaining()[0] == pytest.approx(2)
    assert all(engine.closed for engine in cut.engine.others)


GROUPED = {
    "ols": "y ~ a",
    "tukey_em": "y ~ a",
    "deepest_regression": "y ~ a",
    "median": "y ~ 1",
    "logit": "z ~ a",
}
BY = {"by": "g", "levels": {"g": ["r", "s", "t", "nobody", "u"]}}


def by_group():
    # the rows of a group are spread over the partitions; some are in no declared one
    return frame(6_000).assign(g=np.tile(["r", "s", "undeclared", "t", "s", "u"], 1_000))


@pytest.mark.parametrize("name", GROUPED)
@pytest.mark.parametrize("cuts", [(), (700, 700, 5_999)])
@pytest.mark.slow
def test_groups_fitted_on_workers_are_those_in_memory(name, cuts):
    """Whatever the cuts, with every task run twice; groups that fail, or are refused, do so as in memory."""
    table = by_group()
    table.loc[table["g"] == "t", ["y", "z"]] = np.nan
    cut = Cut(table, cuts)
    here = getattr(dpstats, name)(GROUPED[name], table, eps=4, seed=1, **BY)
    there = getattr(dpstats, name)(GROUPED[name], cut, eps=4, seed=1, **BY)
    np.testing.assert_allclose(there.params, here.params, rtol=1e-9)
    assert dict(there.failed) == dict(here.failed) and list(there.results) == list(here.results)
    assert there.guarantee == here.guarantee and len(cut.engine.attempts) == 3
    for level, fit in here.results.items():
        assert there[level].guarantee == fit.guarantee and there[level].notes == fit.notes
        assert there[level].released == pytest.approx(dict(fit.released), rel=1e-9)
        if fit.design is not None:
            np.testing.assert_array_equal(
                there[level].predict({"a": [0.0, 9.0]}), fit.predict({"a": [0.0, 9.0]})
            )
    # sizes are counted only where they are public
    assert cut.engine.runs == (2 if name == "deepest_regression" else 1)


def outcomes(attempt):
    return dict(pair for done in attempt for pair in done.value)


def test_a_task_that_runs_again_releases_the_same_group_again():
    """Without a seed too: whatever is not additive noise is a function of a key. A group, and a call, has its
    own."""
    table = pd.DataFrame({"y": np.tile(np.random.default_rng(0).normal(size=400), 4)})
    table["g"] = np.repeat(["r", "s", "t", "u"], 400)
    calls = []
    for _ in range(2):
        cut = Cut(table, (500,))
        fits = dpstats.median("y ~ 1", cut, eps=1, alpha=None, **BY)
        first, again = (outcomes(attempt) for attempt in zip(*cut.engine.attempts, strict=True))
        assert {i: one[0].estimates for i, one in first.items() if i != 3} == {
            i: one[0].estimates for i, one in again.items() if i != 3
        }
        calls.append(fits.params["y"].to_numpy())
    # the same rows in every group: draws on a lattice of relative 2^-30 agree with probability below 1e-6
    drawn = np.concatenate([call[[0, 1, 2, 4]] for call in calls])
    assert len(set(drawn)) == 8


def test_additive_noise_is_drawn_again():
    """By OpenDP, from the operating system: one of two attempts is returned, and that is the release."""
    cut = Cut(by_group(), (500,))
    fits = dpstats.mean("y ~ 1", cut, eps=1, **BY)
    first, again = (outcomes(attempt) for attempt in zip(*cut.engine.attempts, strict=True))
    assert fits["r"].params["y"] == again[0][0].estimates[0] != first[0][0].estimates[0]


@pytest.mark.parametrize("name", ["ols", "deepest_regression"])
def test_groups_of_a_partition_that_fails(name, tmp_path):
    """One text, nothing partial; the charge stands where it was made before."""
    ledger = dpstats.Ledger(tmp_path / "ledger.db", eps=3, delta=1e-5)
    cut = Cut(by_group(), (1_000,), broken=(1,))
    with pytest.raises(dpstats.SchemaError, match="a partition of the data could not be read") as error:
        getattr(dpstats, name)("y ~ a", cut, eps=1, ledger=ledger, **BY)
    assert error.value.__cause__ is None and error.value.__context__ is None
    assert ledger.remaining()[0] == pytest.approx(2 if name == "ols" else 3)


def test_a_progress_bar_hears_of_passes_and_not_how_many(monkeypatch):
    """On a cluster, and of files."""
    tqdm, seen = pytest.importorskip("tqdm.auto"), []

    class Bar:
        def __init__(self, total, desc, **how):
            seen.append((desc, total))

        def update(self, steps):
            seen.append(steps)

        def close(self):
            seen.append("closed")

    monkeypatch.setattr(tqdm, "tqdm", Bar)
    for table in (Cut(frame(), (9,)), iter([frame(2_000), frame(1_000, 1)])):
        source = open_source(table)
        monkeypatch.setattr("dpstats.estimation.pipeline.open_source", lambda data, source=source: source)
        seen.clear()
        dpstats.adassp("y ~ a", None, eps=4, seed=1)
        assert seen[0] == ("passes over the rows", None) and seen[-1] == "closed"
        assert set(seen[1:-1]) == {0} and len(seen) > 5


def test_a_bar_shows_no_number_of_passes(monkeypatch):
    """How many there are depends on the rows."""
    pytest.importorskip("tqdm.auto")
    shown = io.StringIO()
    monkeypatch.setattr(shown, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", shown)
    with progress(None, "passes over the rows", "pass") as bar:
        bar.delay = 0
        for _ in range(7):
            bar.update(1)
            bar.refresh()
    assert "passes over the rows [00:00]" in shown.getvalue() and "7" not in shown.getvalue()


def test_groups_that_do_not_come_back_are_missed(monkeypatch):
    monkeypatch.setattr(Here, "gathered", lambda self, shuffle: iter([]))
    with pytest.raises(dpstats.SchemaError, match="not all groups came back"):
        dpstats.ols("y ~ a", Cut(by_group(), ()), eps=1, **BY)


@pytest.mark.slow
def test_groups_cost_what_one_costs_wherever_they_are_fitted(tmp_path):
    ledger = dpstats.Ledger(tmp_path / "ledger.db", eps=3, delta=1e-5)
    dpstats.ols("y ~ a", Cut(by_group(), (9,)), eps=2, ledger=ledger, **BY)
    assert ledger.remaining()[0] == pytest.approx(1)


def test_a_worker_that_gathers_has_the_version():
    shuffle = Shuffle("0.0.1", 1, lambda raw: [(0, raw)], lambda pieces, bucket: pieces)
    assert shuffle.split(1) == shuffle.gather([[1]], 0) == Failed(partitions.version())
    there = Shuffle(partitions.version(), 1, lambda raw: [(0, raw)], lambda pieces, bucket: pieces)
    assert there.gather([there.split(1).value[0], [], [2]], 0) == Done([1, 2], 0)
    assert there.gather([[1], Failed(None)], 0) == Failed(None)


def test_what_is_kept_is_let_go_of(tmp_path):
    """After a call, and after one that failed; a failing partition is charged and says nothing about it."""
    table = frame()
    for broken in ((), (1,)):
        source = Cut(table, (1_000,), broken)
        ledger = dpstats.Ledger(tmp_path / f"{len(broken)}.db", eps=3, delta=1e-5)
        monkey = pytest.MonkeyPatch()
        monkey.setattr("dpstats.estimation.pipeline.open_source", lambda data, source=source: source)
        try:
            if broken:
                with pytest.raises(
                    dpstats.SchemaError, match="a partition of the data could not be read"
                ) as e:
                    dpstats.ols("y ~ a", table, eps=1, ledger=ledger, seed=1)
                assert e.value.__cause__ is None and e.value.__context__ is None
            else:
                dpstats.ols("y ~ a", table, eps=1, ledger=ledger, seed=1)
        finally:
            monkey.undo()
        assert source.engine.closed and not source._engines
        assert ledger.remaining()[0] == pytest.approx(2)


def test_another_version_on_a_worker_is_told(monkeypatch):
    task = partitions.Task("0.0.1", iter, (), lambda blocks, index: 1)
    assert task([], 0) == Failed(partitions.version())
    with pytest.raises(ImportError, match=r"workers of the cluster have dpstats 0\.0\.1, and here it is"):
        partitions.settled(Failed("0.0.1"))
    with pytest.raises(ImportError, match="cannot import dpstats"):
        partitions.check_versions({""}, "Dask")


def test_an_error_on_a_worker_leaves_no_text():
    def work(blocks, index):
        raise ValueError("the row of Ms Smith")

    task = partitions.Task(partitions.version(), iter, (), work)
    assert task([], 0) == Failed(None)


def test_coins_are_a_function_of_key_and_partition():
    one, other = Coins(b"k" * 32), Coins(b"l" * 32)
    # (logs of workers have texts of tasks)
    assert repr(one) == repr(other) == "Coins()"
    assert one.bytes(3, 100) == one.bytes(3, 200)[:100]
    assert len({one.bytes(3, 32), one.bytes(4, 32), other.bytes(3, 32)}) == 3


@pytest.mark.parametrize("seed", [None, 5])
def test_a_sample_keeps_the_same_rows_when_a_task_runs_again(seed):
    """And rows of their own, at the right rate: binomial bounds at 1e-6."""
    table = pd.DataFrame({"y": np.arange(40_000.0)})
    cut = Cut(table, (10_000, 10_001, 30_000))
    blocks = Partitions(cut.engine, lambda part: iter([(part[["y"]].to_numpy(), part[["y"]].to_numpy())]))

    class Given:
        in_memory, partitions = False, blocks

    for halvings in (1, 3):
        rng = Randomness(seed)
        ((X, _),) = sample(Given(), halvings, rng)
        kept, rate = X[:, 0], 2.0**-halvings
        assert (np.diff(kept) > 0).all()
        assert abs(len(kept) - 40_000 * rate) < 5 * np.sqrt(40_000 * rate * (1 - rate))
        for low, high in ((0, 10_000), (10_001, 30_000), (30_000, 40_000)):
            part = np.sum((kept >= low) & (kept < high))
            assert abs(part - (high - low) * rate) < 5 * np.sqrt((high - low) * rate)
        # no pattern from partition to partition
        both = np.isin(np.arange(10_001, 20_001), kept) & np.isin(np.arange(30_000, 40_000), kept)
        assert abs(both.sum() - 10_000 * rate**2) < 6 * np.sqrt(10_000 * rate**2)


def test_sums_are_exact_in_any_pieces():
    g = np.random.default_rng(0)
    X, Y = g.integers(-9, 9, (5_000, 2)).astype(float), g.standard_normal((5_000, 1))

    def update(state, X, Y, first):
        state += (X.T @ X).astype(np.int64)

    whole = fold(Rows(X, Y), lambda: np.zeros((2, 2), np.int64), update)
    parts = [Done(fold(Rows(x, y), lambda: np.zeros((2, 2), np.int64), update), 1)
             for x, y in zip(np.array_split(X, 7), np.array_split(Y, 7), strict=True)]  # fmt: skip
    np.testing.assert_array_equal(added(parts).value, whole)
    assert added(parts).size == 7
    assert added([Done((np.ones(2), np.ones(1)), 1)] * 3).value[0].tolist() == [3, 3]
    assert added([Done(1, 1), Failed(None), Done(1, 1)]) == Failed(None)


def test_partitions_without_rows_need_not_know_their_columns():
    """As those of Spark, which come without a batch; and a table may have no partition at all."""
    ones = np.ones((64, 2)), np.ones((64, 1))

    class Given:
        in_memory = False
        partitions = Partitions(Here([[], [ones], []]), iter)

    ((X, Y),) = sample(Given(), 1, Randomness(0))
    assert X.shape[1] == 2 and 0 < len(X) == len(Y) < 64
    Given.partitions = Partitions(Here([]), iter)
    assert fold(Given(), lambda: np.zeros(2), None).tolist() == [0, 0]
    assert count_rows(Given()) == 0


def test_an_error_about_partitions_is_no_lack_of_them():
    class Broken:
        @property
        def partitions(self):
            raise AttributeError("of something else")

    with pytest.raises(AttributeError, match="of something else"):
        local.partitions_of(Broken())


def test_rows_are_counted_there():
    class Given:
        in_memory = False
        partitions = Partitions(Here([[(np.ones((3, 1)), np.ones((3, 1)))], []]), iter)

    assert count_rows(Given()) == 3
    assert count_rows(Rows(np.ones((4, 1)), np.ones(4))) == 4
    assert local.partitions_of(Rows(np.ones((4, 1)), np.ones(4))) is None


def test_pieces_of_a_partition_can_be_written():
    """Without what cannot be: one row must not decide whether there is a release."""

    class Local:
        pass

    values = np.fromiter([1, Local(), "a"], object, 3)
    raw = pd.DataFrame({"x": [1.0, 2.0, 3.0], "id": values, "f": pd.Categorical(values)})
    raw.index = pd.Index([0, 1, Local()], dtype=object)
    (piece,) = clusters.DaskSource._pieces(raw)
    read = pickle.loads(pickle.dumps(piece))
    assert read.numbers("x").tolist() == [1.0, 2.0, 3.0]
    assert list(read.keys("id")) == list(read.keys("f")) == [1, None, "a"]
