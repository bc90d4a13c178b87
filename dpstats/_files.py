"""Files as batches of rows: Parquet and Arrow files through pyarrow, CSV through pandas."""

import csv
import glob
import io
import os

import pandas as pd

from dpstats._columns import NumpyColumn
from dpstats.errors import SchemaError
from dpstats.schema import Column

__all__ = ["FORMATS", "csv_batches", "csv_columns", "find", "open_dataset"]

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
_COMPRESSED = (".gz", ".bz2", ".xz", ".zip", ".zst")


def find(path):
    """Return the files that a path or pattern names, in order, and their format (a value of :data:`FORMATS`).

    Raises
    ------
    SchemaError
        If there is no such file, or the endings are not known or not the same.
    """
    path = os.fspath(path)
    if os.path.isdir(path):
        path = os.path.join(path, "*")
    files = [path] if os.path.exists(path) else sorted(filter(os.path.isfile, glob.glob(path, recursive=True)))
    if not files:
        raise SchemaError(f"there is no file {path!r}.")
    formats = {_format(file) for file in files}
    if len(formats) != 1 or None in formats:
        raise SchemaError(f"the files {path!r} must all end in one of {', '.join(FORMATS)} (CSV also compressed).")
    return files, formats.pop()


def _format(file):
    stem, ending = os.path.splitext(file.lower())
    if ending in _COMPRESSED:
        kind = FORMATS.get(os.path.splitext(stem)[1])
        return kind if kind in (",", "\t") else None
    return FORMATS.get(ending)


def open_dataset(files, kind):
    """Return a pyarrow dataset of the files, having read their schema alone."""
    try:
        import pyarrow.dataset as ds
    except ImportError:
        raise ImportError("Parquet and Arrow files need pyarrow: pip install 'dpstats[arrow]'") from None
    return ds.dataset(files, format=kind)


def csv_columns(files, separator):
    """Return the columns that the header says; a CSV field has no dtype (kind ``"untyped"``).

    Raises
    ------
    SchemaError
        If the files have different headers.
    """
    headers = [_header(file, separator) for file in files]
    if any(header != headers[0] for header in headers):
        raise SchemaError("the CSV files do not all have the same header.")
    return [Column(name, "untyped", "a CSV field") for name in headers[0]]


def _header(file, separator):
    with pd.io.common.get_handle(
        file, "r", encoding="utf-8-sig", errors="replace", compression="infer", is_text=True
    ) as opened:
        line = opened.handle.readline()
    return next(csv.reader(io.StringIO(line), delimiter=separator), [])


def csv_batches(files, separator, header, names, rows):
    """Yield batches of the named columns as object arrays of the fields' texts.

    Lines with too many fields are skipped, and fields that a line lacks are empty. Types are not inferred: what
    pandas would make of a column depends on all of its values.
    """
    positions = {name: str(i) for i, name in enumerate(header)}
    for file in files:
        reader = pd.read_csv(
            file,
            sep=separator,
            header=0,
            names=list(positions.values()),
            usecols=[positions[name] for name in names],
            index_col=False,
            dtype=object,
            na_filter=False,
            encoding_errors="replace",
            on_bad_lines="skip",
            engine="c",
            chunksize=rows,
        )
        with reader:
            for part in reader:
                yield len(part), {name: NumpyColumn(part[positions[name]].to_numpy()) for name in names}
