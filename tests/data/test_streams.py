"""Iterators of frames, lists of paths, and paths that fsspec knows."""

import gc
import warnings

import numpy as np
import pandas as pd
import pytest

import dpstats
from dpstats.data.sources import open_source
from dpstats.data.spill import Spill
from dpstats.errors import SchemaError


def table(n=3_000):
    g = np.random.default_rng(0)
    x = g.standard_normal(n)
    return pd.DataFrame({"y": 1 + x + g.standard_normal(n), "x": x, "f": g.choice(["p", "q"], n)})


FORMULA = "y ~ x + C(f, levels=['p', 'q'])"


def fit(data):
    return dpstats.ols(FORMULA, data, eps=3, seed=1).params


def pieces(frame, make=lambda piece: piece):
    return (make(frame.iloc[i : i + 700]) for i in range(0, len(frame), 700))


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "dictionary"])
@pytest.mark.slow
def test_frames_one_after_another(kind):
    make = {
        "pandas": lambda piece: piece,
        "polars": lambda piece: pytest.importorskip("polars").from_pandas(piece),
        "arrow": lambda piece: pytest.importorskip("pyarrow").Table.from_pandas(piece),
        "dictionary": lambda piece: {name: piece[name].to_numpy() for name in piece},
    }[kind]
    np.testing.assert_allclose(fit(pieces(table(), make)), fit(table()), rtol=1e-12)


def test_types_may_differ_from_frame_to_frame():
    frame = table()
    frame["x"] = frame["x"].round()
    mixed = [frame[:1_000].astype({"x": int}), frame[1_000:].astype({"x": object})]
    np.testing.assert_allclose(fit(iter(mixed)), fit(frame), rtol=1e-12)


def test_frames_are_taken_once_and_kept_in_a_file_without_a_name():
    taken = []

    def frames():
        for piece in pieces(table()):
            taken.append(len(piece))
            yield piece

    source = open_source(frames())
    assert len(taken) == 1
    rows = [sum(batch.rows for batch in source.batches(["x"])) for _ in range(3)]
    assert rows == [3_000] * 3 and len(taken) == 5
    assert not isinstance(source._spill._file.name, str)
    source.close()
    assert source._spill._file.closed


def test_what_is_no_stream_of_frames():
    with pytest.raises(SchemaError, match="the iterator of frames is empty"):
        fit(iter([]))
    with pytest.raises(SchemaError, match="cannot be read"):
        fit(iter([1, 2]))
    short = table().drop(columns="x")
    with pytest.raises(SchemaError, match=r"^the data could not be read\.$"):
        fit(iter([table(), short]))


@pytest.mark.parametrize("ending", ["parquet", "csv", "feather"])
@pytest.mark.slow
def test_several_paths_and_other_file_systems(ending, tmp_path):
    pytest.importorskip("pyarrow")
    fsspec = pytest.importorskip("fsspec")
    frame = table()
    names = []
    for i, piece in enumerate((frame[:1_000], frame[1_000:].reset_index(drop=True))):
        path = tmp_path / f"{i}.{ending}"
        write = {"csv": lambda p, path=path: p.to_csv(path, index=False)}.get(
            ending, lambda p, path=path: getattr(p, f"to_{ending}")(path)
        )
        write(piece)
        fsspec.filesystem("memory").pipe(f"/streams/{path.name}", path.read_bytes())
        names.append(path)
    levels = {"levels": {"f": ["p", "q"]}}
    want = dpstats.ols("y ~ x + f", frame, eps=3, seed=1, **levels).params
    memory = "memory://streams"
    for data in (
        names,
        [str(name) for name in names],
        f"{memory}/*.{ending}",
        [f"{memory}/{n.name}" for n in names],
    ):
        np.testing.assert_allclose(
            dpstats.ols("y ~ x + f", data, eps=3, seed=1, **levels).params, want, rtol=1e-6
        )


def test_mistakes_about_paths():
    with pytest.raises(SchemaError, match="data of type list cannot be read"):
        fit([1, 2])
    with pytest.raises(SchemaError, match="there is no file 'memory://nothing.csv'"):
        fit("memory://nothing.csv")


class Unwritable:
    def __init__(self, when):
        self._when = when

    def __reduce__(self):
        if self._when == "written":
            raise ValueError
        return float, ("no number",)


@pytest.mark.parametrize("column", ["x", "unused"])
@pytest.mark.parametrize(
    "odd", [Unwritable("written"), Unwritable("read"), lambda: None], ids=["w", "r", "f"]
)
@pytest.mark.parametrize(
    "make", [pd.DataFrame, lambda frame: {name: v.to_numpy() for name, v in frame.items()}]
)
@pytest.mark.slow
def test_a_value_that_cannot_be_written_is_missing(make, odd, column):
    """It changes no other, and is no error: the release is that of the same frame in memory."""
    frame = table().assign(unused="a").astype(object)
    frame.at[5, column] = odd
    np.testing.assert_array_equal(fit(pieces(frame, make)), fit(make(frame)))


@pytest.mark.parametrize("column", ["f", "unused"])
@pytest.mark.slow
def test_a_category_that_cannot_be_written_is_missing(column):
    frame = table().assign(unused="a")
    values = frame[column].astype(object)
    values[5] = Unwritable("written")
    frame[column] = values.astype("category")
    np.testing.assert_array_equal(fit(pieces(frame, pd.DataFrame)), fit(frame))


@pytest.mark.parametrize("close", [True, False])
@pytest.mark.slow
def test_the_file_of_piles_is_closed_with_the_last_reference(close):
    piles = Spill()
    piles.add(1)
    file = piles._file
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if close:
            piles.close()
            piles.close()
        piles.itself = piles
        del piles
        gc.collect()
    assert file.closed


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    "error", [ImportError("row 7"), OSError(5, "row 7"), SchemaError("row 7"), ValueError("row 7")]
)
def test_errors_of_an_iterator_are_not_shown(error, late):
    """Whatever their type: their text is the iterator's, and may quote rows."""

    def frames():
        if late:
            yield table(700)
        raise error

    with pytest.raises(SchemaError, match="the iterator of frames raised an error") as raised:
        fit(frames())
    assert "row 7" not in str(raised.value)
    assert raised.value.__cause__ is None and raised.value.__context__ is None


@pytest.mark.parametrize("late", [False, True])
def test_texts_in_the_place_of_frames_are_not_paths(late):
    """A column that is handed over as an iterator has its rows in the place of frames."""
    frames = iter([*[table(700)] * late, "Anna Schmidt"])
    with pytest.raises(SchemaError, match="a text, a path or a list in the place of a frame") as raised:
        fit(frames)
    assert "Anna" not in str(raised.value)
