"""Rows of units brought together: whole, each once, in memory and by way of the disk."""

import ast
import datetime
import decimal
import itertools
import os
import subprocess
import sys
import tempfile
from decimal import Decimal
from fractions import Fraction
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest

from dpstats.data import units
from dpstats.data.columns import NumpyColumn
from dpstats.data.pandas_column import PandasColumn
from dpstats.data.sources import open_source
from dpstats.data.spill import Spill
from dpstats.data.units import UnitParts
from dpstats.errors import SchemaError

KEY = "0123456789abcdef"


def frames(table, rows=97):
    """A table as frames that come one after another."""
    return iter([table[i : i + rows] for i in range(0, len(table), rows)])


def parts(data, key=KEY):
    return UnitParts(open_source(data), ("y",), frozenset(), "id", key)


def found(made):
    """Of each part its units, in their order: pairs of the value and the numbers of its rows."""
    out = []
    for rows in made:
        ids, y = rows.array("id", "keys")[rows.together], rows.array("y", "numbers")[rows.together]
        cuts = np.flatnonzero(np.diff(rows.units)) + 1
        split = zip(np.split(ids, cuts), np.split(y, cuts), strict=True)
        out.append([(each[0], numbers.tolist()) for each, numbers in split if len(each)])
    return out


def table(rows=4_000, seed=0):
    """Units of very different sizes, their rows anywhere; some rows have none. The numbers count the rows."""
    g = np.random.default_rng(seed)
    ids = [f"p{i}" for i in (g.pareto(0.4, rows) * 5).astype(int) % 900]
    ids = np.where(g.random(rows) < 0.02, None, np.array(ids, dtype=object))
    return pd.DataFrame({"id": ids, "y": np.arange(float(rows))})


def grouped(frame):
    return {unit: rows["y"].tolist() for unit, rows in frame.groupby("id", sort=False)}


@pytest.mark.parametrize("held", [1 << 22, 2_000, 120])
@pytest.mark.slow
def test_units_are_whole_and_their_rows_are_there_once(held, monkeypatch):
    monkeypatch.setattr(units, "_HELD", held)
    frame = table()
    made = parts(frames(frame))
    whole = list(itertools.chain(*found(made)))
    assert made.in_memory == (held > 2_000)
    # (a key that comes back would be lost here)
    assert len(whole) == len(dict(whole)) and dict(whole) == grouped(frame)
    # in the order that they have in memory, and again at another pass
    again = found(made)
    assert whole == found(parts(frame))[0] == list(itertools.chain(*again))
    # at 120 some piles are laid on piles once more, until they are small or of one unit
    assert {1 << 22: 0, 2_000: 1}.get(held, 3) <= len(made._spills)
    assert all(len(part) == 1 or sum(len(y) for _, y in part) <= held // 2 for part in again)


def test_a_unit_of_very_many_rows_is_a_part_of_its_own(monkeypatch):
    monkeypatch.setattr(units, "_HELD", 100)
    frame = pd.DataFrame({"id": np.where(np.arange(3_000) % 20, -1, np.arange(3_000)), "y": np.arange(3e3)})
    made = parts(frames(frame))
    (mine,) = [dict(part) for part in found(made) if -1 in dict(part)]
    assert mine[-1] == grouped(frame)[-1]
    # laid again until nothing else lay with it, and not for ever
    assert len(made._spills) <= 4


@pytest.mark.slow
def test_a_unit_more_or_less_changes_no_other():
    """Whatever else lies on its pile, and whether there are so few rows that none is laid on one."""
    frame = table(2_500)
    sizes = frame["id"].value_counts()
    with pytest.MonkeyPatch.context() as patch:
        for held, gone in ((400, sizes.index[[0, 40]]), (4_000, sizes.index[:1])):
            patch.setattr(units, "_HELD", held)
            with_it = list(itertools.chain(*found(parts(frames(frame)))))
            for unit in gone:
                without = list(itertools.chain(*found(parts(frames(frame[frame["id"] != unit])))))
                assert without == [pair for pair in with_it if pair[0] != unit]


def test_rows_of_different_units_may_lie_in_any_order():
    frame = table(1_000)
    # an array, as argsort() of a Series lost the missing ones before pandas 3
    hashes = frame["id"].map(hash, na_action="ignore").to_numpy(float)
    moved = frame.iloc[np.argsort(hashes, kind="stable")]
    assert found(parts(moved)) == found(parts(frame))


ZONE = ZoneInfo("Europe/Berlin")
EQUAL = [
    [1, 1.0, True, np.int8(1), np.float32(1), Decimal(1), Fraction(1), 1 + 0j],
    [0, -0.0, False],
    [-1, -1.0],
    [0.5, Decimal("0.50"), Fraction(1, 2)],
    [2**70, 2.0**70, Decimal(2**70)],
    ["1", np.str_("1")],
    ["\ud800é"],
    [b"1", np.bytes_(b"1")],
    [datetime.datetime(2020, 1, 2), pd.Timestamp("2020-01-02"), np.datetime64("2020-01-02", "s")],
    [datetime.timedelta(1), pd.Timedelta(days=1), np.timedelta64(24, "h")],
    [
        datetime.datetime(2020, 1, 1, 12, tzinfo=datetime.UTC),
        datetime.datetime(2020, 1, 1, 14, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
    ],
    [(1, "a"), (1.0, "a")],
    # the hour that comes twice: moments of one zone are equal whatever `fold` says
    [datetime.datetime(2021, 10, 31, 2, 30, tzinfo=ZONE, fold=fold) for fold in (0, 1)],
    [pd.Timestamp("2021-10-31 01:30", tz="UTC").tz_convert(zone) for zone in ("UTC", "Europe/Berlin")],
]


@pytest.mark.parametrize("equal", EQUAL, ids=[repr(values[0]) for values in EQUAL])
def test_values_that_compare_equal_are_one_unit_and_have_one_hash(equal):
    values = np.fromiter(equal, dtype=object, count=len(equal))
    assert all(a == b for a, b in itertools.pairwise(equal))
    assert set(units._numbered(values)[0]) == {0}
    alone = [units._hashes(units._numbered(values[i : i + 1])[1], KEY)[0] for i in range(len(values))]
    assert len(set(alone)) == 1


@pytest.mark.parametrize(
    "values",
    [
        [np.float32(0.1), 0.1, np.float16(0.1), np.complex64(0.2)],
        [np.int64(2**53 + 1), 2.0**53],
        [datetime.date(2020, 1, 1), np.datetime64("2020-01-01")],
        [np.timedelta64(24, "s"), 24, b"a"],
        [pd.Timestamp("2020-01-01 00:00:00.000000001"), pd.Timestamp("2020-01-01")],
    ],
    ids=["rounded", "large", "days", "span", "ns"],
)
def test_what_numpy_compares_by_rules_of_its_own_is_what_it_is_in_python(values):
    """NumPy finds some of these equal to others; a hash table would, by their places in it."""
    for some in (values, values[::-1]):
        assert units._numbered(np.fromiter(some, object, len(some)))[0].tolist() == list(range(len(some)))


def test_what_holds_a_value_does_not_say_what_it_is():
    """Frames of other types beside it: long doubles, texts of NumPy; times finer than pandas
    has them are none, as they would be one unit."""
    texts = np.array(["a", "", "a"], np.dtypes.StringDType())
    assert units._numbered(NumpyColumn(texts).keys())[0].tolist() == [0, -1, 0]
    long = np.array([0.5, 0.1], np.longdouble)
    assert NumpyColumn(long).keys().tolist() == [0.5, float(long[1])]
    assert units._numbered(np.fromiter(long, object, 2))[1].tolist() == [0.5, float(long[1])]
    fine = np.array([1, 2, 10**3, 7 * 10**3], "M8[ps]")
    assert units._numbered(NumpyColumn(fine).keys())[0].tolist() == [-1, -1, 0, 1]


def test_equal_times_are_one_unit_in_any_resolution():
    """Outside of Python's years pandas' hash of a moment depends on it: there is none there."""
    for text in ("2020-01-01", "9999-12-31", "20000-01-01"):
        values = [np.datetime64(text, unit) for unit in ("D", "s", "ms", "us")]
        keys = np.concatenate([NumpyColumn(np.array([value])).keys() for value in values])
        expected = 0 if len(text) == 10 else -1
        assert set(units._numbered(keys)[0]) == {expected}
        assert set(units._numbered(np.fromiter(map(pd.Timestamp, values), object, 4))[0]) == {expected}


def test_texts_without_utf8_may_come_in_many_frames():
    pa = pytest.importorskip("pyarrow")
    raw = pa.array([b"a", b"\xff", b"b", b"a"], pa.large_binary())
    texts = pa.Array.from_buffers(pa.large_string(), 4, raw.buffers())
    ids = pd.Series(pd.array(texts, dtype=pd.StringDtype("pyarrow", na_value=np.nan)))
    frame = pd.DataFrame({"id": ids, "y": np.arange(4.0)})
    for made in (frame, frames(frame, 2), frames(frame, 1)):
        assert sorted(numbers for part in found(parts(made)) for _, numbers in part) == [[0, 3], [2]]


def test_a_span_of_numpy_is_that_of_python():
    values = [
        np.timedelta64(24, "s"),
        datetime.timedelta(seconds=24),
        np.timedelta64(2, "Y"),
        memoryview(b"a"),
    ]
    assert units._numbered(np.fromiter(values, object, 4))[0].tolist() == [0, 0, -1, -1]


@pytest.mark.parametrize("kind", ["M8[D]", "m8[D]", "M8[Y]"])
def test_a_time_that_is_too_far_out_is_no_unit(kind):
    """Whatever holds it, and the others are what they are."""
    values = np.array([2**50, 3, 4, 3], "i8").astype(kind)
    objects = np.fromiter(values, object, 4)
    held = NumpyColumn(values), NumpyColumn(np.ma.masked_array(values)), NumpyColumn(objects)
    for column in held:
        codes, found = units._numbered(column.keys())
        assert codes.tolist() == [-1, 0, 1, 0] and len(units._hashes(found, KEY)) == len(found) == 2


LAST = datetime.datetime.max.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=-5)))


def test_what_equals_itself_by_identity_alone_is_no_unit():
    """A copy of it would be another unit: one person would be as many as there are frames. And a moment that
    is none in UTC."""
    values = [frozenset({float("nan")}), (1, float("nan")), object(), LAST, (1, None), (1, None)]
    assert units._numbered(np.fromiter(values, object, 6))[0].tolist() == [-1, -1, -1, -1, 0, 0]


class Unequal:
    """Equal to nothing, not even to itself."""

    __hash__ = object.__hash__

    def __eq__(self, other):
        return False


@pytest.mark.parametrize(
    "odd", [None, object(), np.timedelta64(9, "D"), memoryview(b"x"), 1.5, Decimal("sNaN")]
)
@pytest.mark.parametrize(
    "pairs",
    [
        [(b"%d" % k, memoryview(b"%d" % k)) for k in range(3)],
        [(datetime.timedelta(k), np.timedelta64(k, "D")) for k in range(1, 4)],
        [(text, repr(text)) for text in ("\udce9", "\udce9a", "a\udce9")],
        [(Unequal(), Unequal()) for _ in range(3)],
        [(float("nan"), Decimal("nan")), (pd.NA, pd.NaT), ("", b"")],
    ],
    ids=["bytes", "spans", "surrogates", "unequal", "missing"],
)
def test_no_value_changes_what_others_are(pairs, odd):
    """One more row, however odd: the others have the units that they had."""
    values = [value for pair in pairs for value in pair] * 2
    codes, found = units._numbered(np.fromiter(values, object, len(values)))
    others, more = units._numbered(np.fromiter([*values, odd], object, len(values) + 1))
    np.testing.assert_array_equal(others[:-1], codes)
    np.testing.assert_array_equal(units._hashes(more[: len(found)], KEY), units._hashes(found, KEY))


def test_texts_are_units_by_what_they_are():
    texts = ["\udce9", repr("\udce9"), "a"]
    assert units._numbered(np.fromiter(texts, object, 3))[0].tolist() == [0, 1, 2]


def test_a_text_of_arrow_that_is_none_is_missing():
    """Readers of Parquet do not look whether bytes are UTF-8. The other texts are what they are."""
    pa = pytest.importorskip("pyarrow")
    raw = pa.array([b"a", b"\xff", b"b", None, b"a", b""], pa.large_binary())
    texts = pa.Array.from_buffers(pa.large_string(), len(raw), raw.buffers())
    series = pd.Series(pd.array(texts, dtype=pd.StringDtype("pyarrow", na_value=np.nan)))
    codes, found = units._numbered(PandasColumn(series).keys())
    plain, others = units._numbered(np.array(["a", None, "b", None, "a", ""], object))
    assert ((codes < 0) == (plain < 0)).all()
    assert list(found[codes[codes >= 0]]) == list(others[plain[plain >= 0]]) == ["a", "b", "a"]
    assert PandasColumn(series).codes(("a", "b")).tolist() == [0, -1, 1, -1, 0, -1]


@pytest.mark.slow
def test_the_bucket_of_a_value_is_the_same_in_every_process():
    """Where Python's hash is not, all values are in one."""
    code = (
        "import datetime, sys, uuid, numpy as np, pandas as pd;"
        "from dpstats.data.units import bucket_of_unit;"
        "day = datetime.date(2020, 1, 2);"
        "values = ['a', 1, 2.5, True, b'b', day, datetime.time(1), (1, 'a'), pd.Period('2020-01', 'M'),"
        " pd.Interval(0, 1), datetime.timedelta(1), np.bool_(True),"
        " uuid.UUID(int=5), None, ''];"
        f"print(bucket_of_unit(np.fromiter(values, object, len(values)), {KEY!r}, 1000).tolist())"
    )
    found = {
        subprocess.run([sys.executable, "-c", code], env=os.environ | {"PYTHONHASHSEED": seed},
                       capture_output=True, text=True, check=True).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(found) == 1
    buckets = ast.literal_eval(found.pop())
    assert buckets[-2:] == [-1, -1] and buckets[1] == buckets[3] == buckets[11]
    assert len(set(buckets[6:9])) == 1 and len({*buckets[:7], buckets[12]}) == 7 and buckets[9] == -1


def test_hashes_do_not_depend_on_what_holds_the_values():
    for values in (np.arange(5), np.arange(-2, 3), np.array([2**61 + 1, 2**61]), np.array([True, False])):
        plain = units._hashes(values.astype(object), KEY)
        for same in (values, values.astype(float) if abs(values).max() < 2**53 else values):
            np.testing.assert_array_equal(units._hashes(same, KEY), plain)
    days = np.array(["2020-01-02", "1890-05-06"], dtype="M8[D]")
    for kind in ("M8[s]", "M8[us]", "M8[ns]"):
        same, moments = (NumpyColumn(part).keys() for part in (days.astype(kind), days))
        np.testing.assert_array_equal(units._hashes(same, KEY), units._hashes(moments, KEY))
    texts = np.array(["a", "é", "\ud800"], dtype=object)
    np.testing.assert_array_equal(
        units._hashes(texts, KEY), np.concatenate([units._hashes(texts[i : i + 1], KEY) for i in range(3)])
    )


def test_a_unit_is_one_whatever_the_types_of_its_frames(monkeypatch):
    ids = [np.array([1, 2, 2**53 + 1]), np.array([1.0, 2.5, 2.0**53]), np.array([True, "1", None], object)]
    days = [np.array(["2020-01-01"] * 3, dtype=kind) for kind in ("M8[s]", "M8[ns]")]
    pieces = [pd.DataFrame({"id": each, "y": np.arange(3.0) + 3 * i}) for i, each in enumerate([*ids, *days])]
    numbers = [[0, 3], [1], [2], [4], [5]]
    assert sorted(y for part in found(parts(iter(pieces[:2]))) for _, y in part) == numbers
    monkeypatch.setattr(units, "_HELD", 6)
    made = parts(iter(pieces))
    assert not made.in_memory
    rows = sorted(numbers for part in found(made) for _, numbers in part)
    # whole numbers beyond 2^53 are not rounded, and "1" is no number
    assert rows == [[0, 3, 6], [1], [2], [4], [5], [7], [9, 10, 11, 12, 13, 14]]


class Nameless:
    """Equal to itself alone: a copy of one is another."""


@pytest.mark.parametrize(
    "odd", [Nameless(), lambda: None, b"", ""], ids=["object", "function", "bytes", "text"]
)
def test_what_equals_nothing_but_itself_is_no_unit(odd, monkeypatch):
    """In memory and by way of the disk, where the others are what they are."""
    ids = np.empty(6, dtype=object)
    ids[:] = ["a", odd, "b", odd, "a", 1]
    frame = pd.DataFrame({"id": ids, "y": np.arange(6.0)})
    whole = sorted(rows for part in found(parts(frame)) for _, rows in part)
    assert whole == ([[0, 4], [1, 3], [2], [5]] if odd == b"" else [[0, 4], [2], [5]])
    monkeypatch.setattr(units, "_HELD", 2)
    made = parts(frames(frame, 3))
    assert not made.in_memory
    assert sorted(rows for part in found(made) for _, rows in part) == whole


@pytest.mark.parametrize("held", [1 << 22, 2])
def test_a_number_in_a_file_is_one_unit_however_it_is_written(held, tmp_path, monkeypatch):
    """A missing value makes pandas write all numbers of a column with a point."""
    monkeypatch.setattr(units, "_HELD", held)
    (tmp_path / "1.csv").write_text("id,y\n1,0\n2,1\n 3,2\np1,3\n")
    more = 'id,y\n1.0,4\n,5\nNA,6\n3e+00,7\n"p1 ",8\n9007199254740993,9\n9007199254740992,10\n'
    (tmp_path / "2.csv").write_text(more)
    made = parts([str(tmp_path / "1.csv"), str(tmp_path / "2.csv")])
    rows = sorted(numbers for part in found(made) for _, numbers in part)
    assert rows == [[0, 4], [1], [2, 7], [3, 8], [9], [10]]


APART = [
    "4E310", "7E512", "123E4", "1230000", "12_3", "1_23", "123", "0x10", "16", "true", "1", "inf", "Infinity",
    "0.1", "0.10000000000000000001", "12.5", "12.25", "12",
    "12345678901234567890.5", "12345678901234567890.25", "1e-400", "0",
    "1E+" + "9" * 40, "1E+" + "9" * 41, "Müller", "Möller", "M?ller", "M\ufffdller", "José", "Josè",
]  # fmt: skip


@pytest.mark.parametrize("held", [1 << 22, 2])
@pytest.mark.parametrize("encoding", ["utf-8", "cp1252"])
def test_ids_of_a_file_that_a_reader_may_confuse_are_units_of_their_own(
    held, encoding, tmp_path, monkeypatch
):
    """With two ids in one unit, removing the rows of one of them would replace a unit."""
    monkeypatch.setattr(units, "_HELD", held)
    ids = [one for one in APART if encoding == "utf-8" or "\ufffd" not in one]
    text = "id,y\n" + "".join(f"{one},{i}\n" for i, one in enumerate(ids * 2))
    (tmp_path / "1.csv").write_bytes(text.encode(encoding))
    made = parts([str(tmp_path / "1.csv")])
    rows = sorted(numbers for part in found(made) for _, numbers in part)
    assert rows == [[i, i + len(ids)] for i in range(len(ids))]


def test_the_mark_of_undecoded_bytes_is_no_byte(tmp_path):
    ids = [
        b"a\xfc",
        "a\ufffd".encode(),
        "a\ufffd\ue0fc".encode(),
        "a\ufffd\ufffd".encode(),
        "a\ue0fc".encode(),
    ]
    (tmp_path / "1.csv").write_bytes(b"id,y\n" + b"".join(one + b",0\n" for one in ids))
    assert sum(parts([str(tmp_path / "1.csv")]).sizes()) == len(ids)
    # whatever other rows hold
    (tmp_path / "2.csv").write_bytes(b"id,y\n" + ids[1] + b",0\n")
    assert sum(parts([str(tmp_path / "1.csv"), str(tmp_path / "2.csv")]).sizes()) == len(ids)


def test_a_level_is_what_a_text_without_letters_looks_like(tmp_path):
    """As pandas shows it: the mark, whatever the byte was, or the mark itself."""
    (tmp_path / "1.csv").write_bytes(b"c,y\nK\xf6ln,0\nK\xfcln,1\nBonn,2\n" + "K\ufffdln,3\n".encode())
    data = open_source(str(tmp_path / "1.csv"))
    (batch,) = data.batches(["c"], frozenset({"c"}))
    assert batch.codes("c", ("K\ufffdln", "Bonn")).tolist() == [0, 0, 1, 0]
    assert batch.codes("c", ("K\xf6ln", "Bonn")).tolist() == [-1, -1, 1, -1]


def test_an_exponent_that_is_too_long_is_a_text_in_every_context(tmp_path):
    ids = ["1e+" + "9" * 30, "7", "1e+" + "9" * 30]
    (tmp_path / "1.csv").write_text("id,y\n" + "".join(f"{one},0\n" for one in ids))
    with decimal.localcontext(decimal.ExtendedContext):
        assert parts([str(tmp_path / "1.csv")]).sizes() == [2]


def test_long_doubles_are_told_apart_exactly():
    values = np.array([2**60, 2**60 + 1, 2**60, 3, np.nan], np.longdouble)
    if float(values[1] - values[0]) != 1:
        pytest.skip("long doubles are doubles here")
    for held in (values, values.astype(object)):
        rows = sorted(n for part in found(parts({"id": held, "y": np.arange(5)})) for _, n in part)
        assert rows == [[0, 2], [1], [3]]


def test_the_key_says_which_units_lie_together():
    values = np.arange(4_000)
    one, other = (units._hashes(values, key) >> np.uint64(58) for key in (KEY, KEY[::-1]))
    # chi-squared(63) at 1e-6, for piles of 62.5 values
    assert np.sum((np.bincount(one.astype(int), minlength=64) - 62.5) ** 2) / 62.5 < 131
    assert abs(np.mean(one == other) - 1 / 64) < 4.9 * np.sqrt(1 / 64 / 4_000)


def test_the_file_has_no_name_and_goes(tmp_path, monkeypatch):
    monkeypatch.setattr(units, "_HELD", 500)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    made = parts(frames(table(1_000)))
    (spill,) = made._spills
    assert len(found(made)) > 10 and os.listdir(tmp_path) == []
    made.close()
    assert spill._file.closed and not made._spills


def test_the_file_goes_when_rows_cannot_be_read(monkeypatch):
    monkeypatch.setattr(units, "_HELD", 500)
    spills = []
    monkeypatch.setattr(units, "Spill", lambda piles: spills.append(Spill(piles)) or spills[-1])

    def broken():
        yield from frames(table(1_000))
        raise ValueError("a value of the data")

    class Broken(type(open_source(frames(table(10))))):
        def _batches(self, names, coded):
            for frame in broken():
                yield from open_source(frame).batches(names, coded)

    with pytest.raises(SchemaError, match=r"^the data could not be read\.$") as caught:
        UnitParts(Broken(frames(table(10)), open_source), ("y",), frozenset(), "id", KEY)
    assert caught.value.__context__ is None
    assert len(spills) == 1 and spills[0]._file.closed
