"""Columns of times: no numbers, no levels, and nothing that one of them does to the others."""

import datetime

import numpy as np
import pandas as pd
import pytest

import dpstats
from dpstats.data.columns import NumpyColumn, arrow_values
from dpstats.data.pandas_column import PandasColumn
from dpstats.data.polars_column import polars_values
from dpstats.data.times import plain_time
from dpstats.data.units import _numbered

FAR = {"D": 2**30, "s": 2**40, "ms": 2**50, "us": 2**60, "ns": 2**62}
"""Years beyond 9999 where the unit has them."""


def columns(unit, far):
    """Columns of three times, the last of them far out or missing, by what holds them."""
    pa, pl = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    integers = np.array([0, 5, FAR[unit] if far else np.iinfo("i8").min])
    moments, missing = integers.view(f"M8[{unit}]"), np.array([False, False, not far])
    yield "numpy", NumpyColumn(moments)
    yield "spans", NumpyColumn(integers.view(f"m8[{unit}]"))
    if unit == "D":
        days = pa.array(integers.astype("i4"), pa.int32(), mask=missing)
        yield "arrow days", arrow_values(pa.chunked_array([days.cast(pa.date32())]))
        yield (
            "polars days",
            polars_values(pl.Series([0, 5, FAR["D"] if far else None]).cast(pl.Int32).cast(pl.Date)),
        )
        return
    series = pd.Series(moments)
    yield "pandas", PandasColumn(series)
    for zone in ("America/New_York", "Asia/Tokyo", "UTC"):
        yield zone, PandasColumn(series.dt.tz_localize("UTC").dt.tz_convert(zone))
    whole = pa.array(integers, pa.int64(), mask=missing)
    kinds = [pa.timestamp(unit), pa.timestamp(unit, "UTC"), pa.duration(unit)]
    kinds += [pa.date64()] * (unit == "ms")
    for kind in kinds:
        values = (
            whole if kind != pa.date64() else pa.array(integers // 86_400_000 * 86_400_000, mask=missing)
        ).cast(kind)
        yield str(kind), arrow_values(pa.chunked_array([values]))
        yield f"pandas {kind}", PandasColumn(pd.Series(pd.array(values, pd.ArrowDtype(kind))))
    if unit != "s":
        counts = pl.Series([0, 5, FAR[unit] if far else None], dtype=pl.Int64)
        for kind in (pl.Datetime(unit), pl.Datetime(unit, "America/New_York"), pl.Duration(unit)):
            yield str(kind), polars_values(counts.cast(kind))


@pytest.mark.parametrize("unit", FAR)
def test_no_time_raises_or_changes_another_however_far_out(unit):
    for (name, column), (_, without) in zip(columns(unit, True), columns(unit, False), strict=True):
        assert np.isnan(column.numbers()).all() and (column.codes((0, 5)) == -1).all(), name
        assert column.keys()[:2].tolist() == without.keys()[:2].tolist(), name
        assert without.keys()[2] is None and None not in without.keys()[:2], name
        assert _numbered(without.keys())[0][2] == -1
        if unit != "ns" and ("spans" not in name and "uration" not in name):
            assert column.keys()[2] is None, name
        taken = column.take(np.array([1])).keys()
        assert taken.tolist() == column.keys()[1:2].tolist(), name


def test_a_moment_is_one_whatever_holds_it():
    moment, zone = datetime.datetime(2020, 5, 6, 7), datetime.timezone(datetime.timedelta(hours=2))
    for same in (
        np.datetime64("2020-05-06T07", "h"),
        np.datetime64(moment, "us"),
        pd.Timestamp(moment),
        moment,
    ):
        assert plain_time(same) == moment and type(plain_time(same)) is datetime.datetime
    aware = plain_time(moment.replace(tzinfo=zone))
    assert (
        aware == plain_time(pd.Timestamp(moment, tz=zone)) == plain_time(np.datetime64("2020-05-06T05"), True)
    )
    assert plain_time(np.timedelta64(90, "m")) == datetime.timedelta(minutes=90)
    assert plain_time(np.datetime64(7, "ns")) == pd.Timestamp(7) and plain_time(pd.NaT) is None


def test_a_date_far_out_is_a_row_like_others():
    """In a zone with daylight saving pandas has no objects of years from 10000 on."""
    n, answers = 4000, []
    for last in ("2026-01-01", "12026-01-01"):
        when = np.array(["2026-01-01"] * (n - 1) + [last], "M8[us]")
        moments = pd.Series(when).dt.tz_localize("UTC").dt.tz_convert("America/New_York")
        frame = pd.DataFrame({"when": moments, "x": np.random.default_rng(0).normal(size=n)})
        answers.append(dpstats.describe(frame, eps=1, seed=1).rows)
        dpstats.mean("x ~ 1", frame, eps=1, delta=1e-6, unit="when", bounds={"x": (-5, 5)}, seed=1)
    assert answers[0] == answers[1]


def test_what_is_finer_than_nanoseconds_is_no_unit():
    """Units that are taken for one would have no more than the protection of one."""
    values = np.array([1, 2, 1000, 2000])
    moments = [plain_time(value) for value in values.view("M8[ps]")]
    assert moments[:2] == [None, None] and None not in moments[2:] and moments[2] != moments[3]
    assert {plain_time(value) for value in values.view("m8[ps]")} == {None}
