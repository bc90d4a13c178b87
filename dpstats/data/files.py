"""Files as batches of rows: Parquet and Arrow files through pyarrow, CSV through pandas."""

import contextlib
import glob
import itertools
import os
import re
from collections.abc import Iterator, Sequence, Set
from decimal import Decimal
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
from pandas.io.common import get_handle

from dpstats._types import Array, Booleans
from dpstats._validation import quoted
from dpstats.data.columns import NumpyColumn, describe_arrow, untyped
from dpstats.data.dictionaries import is_narrow
from dpstats.data.schema import Column
from dpstats.errors import SchemaError

__all__ = [
    "FORMATS",
    "arrow_batches",
    "arrow_columns",
    "arrow_schema",
    "csv_batches",
    "csv_columns",
    "find",
    "need_pyarrow",
]

#: File name endings and what reads them: a separator (CSV) or a pyarrow format.
FORMATS = {
    ".csv": ",",
    ".tsv": "\t",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "feather",
    ".arrow": "feather",
    ".ipc": "feather",
}
# Common marks of a missing number. They are none for ``float`` either; naming them keeps such a column on the
# fast path.
_MISSING = ["", "NA", "NaN", "nan", "N/A", "null", "NULL", "None"]
# Since pandas 3.1 reading a number is always exact, and asking for it is deprecated.
_EXACT = {} if tuple(map(int, pd.__version__.split(".")[:2])) >= (3, 1) else {"float_precision": "round_trip"}
# Skipping blank lines trips over a lone carriage return in pandas 2.
_TEXT = {"encoding": "utf-8-sig", "encoding_errors": "replace", "skip_blank_lines": False, "engine": "c"}
_UNDECODED = re.compile("[\ufffd\udc80-\udcff]")
# The mark of what has no UTF-8, and a letter: which byte it was, or that it is the mark itself.
_APART = {one: "\ufffd" + chr(0xE000 + one - 0xDC00) for one in (0xFFFD, *range(0xDC80, 0xDD00))}
_MARKED = re.compile("\ufffd.", re.DOTALL)
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]\d+)?", re.ASCII)
"""How most programs write numbers. An exponent has a sign: ``12E4`` may be an id."""
_COMPRESSED = (".gz", ".bz2", ".xz", ".zip", ".zst")


Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def find(path: Paths) -> tuple[list[str], str]:
    """Return the files that a path or pattern names, or several, in order, and their format (a value of
    :data:`FORMATS`).

    Raises
    ------
    SchemaError
        If there is no such file, or the endings are not known or not the same.
    """
    paths: Any = path if isinstance(path, list | tuple) else [path]
    # what is in a list may be data, given by mistake
    shown = f"the files {quoted(os.fspath(paths[0]))}" if paths is not path else "the files of the list"
    files = []
    for i, one in enumerate(paths):
        found = _found(os.fspath(one))
        if not found:
            which = quoted(os.fspath(one)) if paths is not path else f"of the list's path {i}"
            raise SchemaError(f"there is no file {which}.")
        files += found
    kinds = {_format(file) for file in files}
    if len(kinds) != 1 or None in kinds:
        raise SchemaError(f"{shown} must all end in one of {', '.join(FORMATS)} (CSV also compressed).")
    return files, str(kinds.pop())


def _found(path: str) -> list[str]:
    if "://" in path:
        system, inner = _remote(path)
        inner = inner.rstrip("/") + "/*" if system.isdir(inner) else inner
        files = [system.unstrip_protocol(file) for file in sorted(system.glob(inner)) if system.isfile(file)]
    else:
        path = os.path.join(path, "*") if os.path.isdir(path) else path
        files = [path] if os.path.exists(path) else glob.glob(path, recursive=True)
        files = sorted(filter(os.path.isfile, files)) if files != [path] else files
    return files


def _remote(path: str) -> tuple[Any, str]:
    """The file system of fsspec, and the path there."""
    try:
        import fsspec.core
    except ImportError:
        raise ImportError(f"reading {quoted(path)} needs fsspec: pip install fsspec") from None
    found: tuple[Any, str] = fsspec.core.url_to_fs(path)
    return found


def _dataset(file: str, kind: str) -> Any:
    import pyarrow.dataset as ds

    if "://" not in file:
        return ds.dataset(file, format=kind)
    system, inner = _remote(file)
    return ds.dataset(inner, format=kind, filesystem=system)


def _format(file: str) -> str | None:
    stem, ending = os.path.splitext(file.lower())
    if ending in _COMPRESSED:
        kind = FORMATS.get(os.path.splitext(stem)[1])
        return kind if kind in (",", "\t") else None
    return FORMATS.get(ending)


def need_pyarrow(what: str) -> ModuleType:
    """Import pyarrow and return it, or raise an ImportError that says what to install."""
    try:
        import pyarrow
    except ImportError:
        raise ImportError(f"{what} needs pyarrow: pip install 'dpstats[arrow]'") from None
    return pyarrow


def arrow_columns(files: list[str], kind: str) -> list[Column]:
    """Return the columns that all the files have, from their footers.

    Files of one kind of column may differ in its type, as integers and floats do: each is read by its own. A
    type of nulls goes with every other.

    Raises
    ------
    SchemaError
        If they have other names or kinds.
    """
    need_pyarrow("reading Parquet and Arrow files")
    schemas = [arrow_schema(file, kind) for file in files]
    if any(schema.names != schemas[0].names for schema in schemas):
        raise SchemaError(_UNLIKE)
    return [_common(fields) for fields in zip(*schemas, strict=True)]


def arrow_schema(file: str, kind: str) -> Any:
    """The schema of pyarrow in the footer of a file."""
    return _dataset(file, kind).schema


_UNLIKE = "the files do not all have the same columns and kinds of dtypes."


def _common(fields: Sequence[Any]) -> Column:
    described = [describe_arrow(field.name, field.type) for field in fields]
    typed = [column for column in described if column.kind != "untyped"] or described
    if any(column.kind != typed[0].kind for column in typed):
        raise SchemaError(_UNLIKE)
    return typed[0]


def arrow_batches(files: list[str], kind: str, names: list[str], rows: int) -> Iterator[Any]:
    """Yield record batches of the named columns.

    A dataset scanner would decode whole row groups, several at a time; a ParquetFile decodes batch by batch.
    """
    if kind == "parquet":
        for file in files:
            with _parquet(file) as opened:
                yield from opened.iter_batches(rows, columns=names)
    else:
        for file in files:
            yield from _dataset(file, kind).to_batches(columns=names, batch_size=rows, batch_readahead=2)


@contextlib.contextmanager
def _parquet(file: str) -> Iterator[Any]:
    """An open ParquetFile, in which dictionaries have wide indices."""
    from pyarrow.parquet import ParquetFile

    remote = "://" in file
    system, inner = _remote(file) if remote else (None, file)
    given = {"pre_buffer": remote, "buffer_size": 1 << 20, "filesystem": system}
    with contextlib.ExitStack() as stack:
        opened = stack.enter_context(ParquetFile(inner, **given))
        stored = opened.schema
        paths = [stored.column(i).path for i in range(len(stored))]
        narrow = [field.name for field in opened.schema_arrow if is_narrow(field.type)]
        wide = [path for path in paths if any(f"{path}.".startswith(f"{name}.") for name in narrow)]
        if wide:
            footer = opened.metadata
            opened = stack.enter_context(ParquetFile(inner, metadata=footer, read_dictionary=wide, **given))
        yield opened


def csv_columns(files: list[str], separator: str) -> list[Column]:
    """Return the columns that the header says; a CSV field has no dtype (kind ``"untyped"``).

    Raises
    ------
    SchemaError
        If the files have different headers.
    """
    headers = [_header(file, separator) for file in files]
    if any(header != headers[0] for header in headers):
        raise SchemaError("the CSV files do not all have the same header.")
    return [untyped(name) for name in headers[0]]


def _header(file: str, separator: str) -> list[Any]:
    try:
        first = pd.read_csv(file, sep=separator, header=None, nrows=1, dtype=object, na_filter=False, **_TEXT)
    except pd.errors.EmptyDataError:
        return []
    return first.iloc[0].tolist()


def csv_batches(
    files: list[str], separator: str, header: list[str], names: list[str], coded: Set[str], rows: int
) -> Iterator[tuple[int, dict[str, NumpyColumn]]]:
    """Yield batches of the named columns: (number of rows, columns by name).

    The columns in `coded` are read as text. The others are numbers, and a text that is no number is missing.
    All values of a line with more fields than the header are missing, unless the first of them is empty, and
    so are fields that a line lacks. It is a record all the same: how many there are may be public. (pandas
    would cut the field off, whatever columns the others belong to. So it gets a header of our own, the
    numbers of the columns and one more.)

    pandas guesses a type for each column of each batch, which depends on all its values; the guess is used
    for speed alone. Numbers and truth values that it reads are those of :mod:`dpstats.data.values` (but for
    the sign of zero, which no formula sees), and where it reads anything else the texts are read one by one.
    """
    positions, further = {name: str(i) for i, name in enumerate(header)}, str(len(header))
    texts = [positions[name] for name in names if name in coded]
    first = separator.join(map(str, range(len(header) + 1))) + "\n"
    for file in files:
        with (
            get_handle(
                file,
                "r",
                encoding=_TEXT["encoding"],
                compression="infer",
                errors="surrogateescape" if texts else "replace",
            ) as opened,
            pd.read_csv(
                _After(first, opened.handle, bool(texts)),
                sep=separator,
                usecols=[*(positions[name] for name in names), further],
                index_col=False,
                dtype=dict.fromkeys([*texts, further], object),
                keep_default_na=False,
                na_values={positions[name]: _MISSING for name in names if name not in coded},
                low_memory=False,
                chunksize=rows,
                **_EXACT,
                **_TEXT,
            ) as reader,
        ):
            reader.get_chunk(1)  # the file's own header
            for read in reader:
                gone = (read[further].notna() & (read[further] != "")).to_numpy(bool)
                yield (
                    len(read),
                    {name: _field_column(read[positions[name]], name in coded, gone) for name in names},
                )


class _After:
    """A line, and then an open text file, in which bytes that are no UTF-8 stay `apart`: two ids must not
    become one.
    """

    def __init__(self, line: str, file: Any, apart: bool) -> None:
        self._line, self._file, self._apart = line, file, apart

    def read(self, size: int = -1) -> str:
        line, self._line = self._line, ""
        text: str = line or self._file.read(size)
        found = self._apart and not text.isascii() and _UNDECODED.search(text)
        return text.translate(_APART) if found else text

    def __iter__(self) -> Iterator[str]:
        return itertools.chain([self._line], self._file)


def _field_column(series: Any, coded: bool, missing: Booleans) -> NumpyColumn:
    # (An object column may hold pandas' truth values, if some texts were missing.)
    if not coded and series.dtype.kind in "iufb":
        return NumpyColumn(series.to_numpy(), missing if missing.any() else None)
    texts: Array = series.to_numpy(dtype=object, copy=bool(missing.any()))
    if missing.any():
        texts[missing] = None
    return FieldColumn(texts)


class FieldColumn(NumpyColumn):
    """Fields of a CSV file, as texts.

    As keys a field is compared as the number that it says, exactly, if it looks like one: how programs write
    the same number depends on the other rows of the file. All others are texts.
    """

    def codes(self, levels: tuple[Any, ...]) -> np.ndarray:
        # a level is what a text looks like
        if any(isinstance(level, str) and "\ufffd" in level for level in levels):
            texts = (_MARKED.sub("\ufffd", v) if isinstance(v, str) else v for v in self._values)
            return NumpyColumn(np.fromiter(texts, object, len(self._values))).codes(levels)
        return super().codes(levels)

    def keys(self) -> np.ndarray:
        # (with None, as pandas takes texts without UTF-8 for others where all are texts)
        codes, found = pd.factorize(np.append(self._values, np.array([None])))
        keys = np.fromiter((_key(v) for v in [*found, None]), object, len(found) + 1)
        return keys[codes[:-1]]

    def take(self, rows: np.ndarray) -> NumpyColumn:
        return FieldColumn(self._values[rows])

    def __reduce__(self) -> tuple[Any, ...]:
        return FieldColumn, (self._values,)


def _key(field: Any) -> Any:
    if not isinstance(field, str):
        return field
    field = field.strip()
    if field in _MISSING:
        return None
    if not _NUMBER.fullmatch(field):
        return field
    try:
        number = Decimal(field)
    except ArithmeticError:
        number = Decimal("NaN")
    if not number.is_finite():
        # an exponent of many digits: an error or none, as the context has it
        return field
    # (whole numbers are sorted faster; of others the digits may be more than memory)
    return int(number) if 0 <= number.adjusted() < 18 and number == int(number) else number
