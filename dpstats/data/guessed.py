"""Sources whose types are guessed from values, or that stop at a value which does not fit: refused, always.

Such a source says things about rows before, or while, they are read, and out of reach of any mechanism. The
checks look at query plans and at the types that files declare, and at no value.
"""

import re
import sys
from typing import Any, NoReturn

from dpstats.errors import SchemaError

__all__ = ["check_dask", "check_dataset", "check_duckdb", "check_polars", "check_spark"]

# How the query plans of polars, duckdb and dask name what reads files without types, or objects of Python:
# duckdb looks at some values of a pandas frame, and what is behind the others, a dataset of CSV files say, is
# not to be seen.
_READERS = re.compile(
    "(csv|json) scan|read[_-]?(nd)?(csv|json|table|fwf)|(pandas|arrow|python)[_ ]scan", re.IGNORECASE
)

# a relation of files in a plan of Spark: "Relation [a#1,b#2] csv"
_SPARK_READERS = re.compile(r"Relation\b.*\] *(csv|json|text|xml)\b", re.IGNORECASE)
_SPARK_CASTS = re.compile(r"(?<!_)\bcast\(", re.IGNORECASE)


def check_polars(query_plan: str) -> None:
    """Refuse a lazy frame of polars, by the text of its query plan before optimisation."""
    _check_readers(query_plan)
    if "strict_cast(" in query_plan:
        raise SchemaError(
            "the lazy frame has a strict cast, which fails if one value cannot be cast: "
            "write .cast(..., strict=False)."
        )


def check_duckdb(relation: Any) -> None:
    """Refuse a relation that reads files without types."""
    _check_readers(relation.sql_query() + relation.explain())


def check_dask(frame: Any) -> None:
    """Refuse a dask frame that comes from files without types."""
    for step in frame.expr.walk():
        _check_readers(str(getattr(step, "_name", "")))


def check_spark(frame: Any) -> None:
    """Refuse a frame of Spark that reads files without types, or that fails if one value cannot be cast."""
    plan = str(frame._jdf.queryExecution().analyzed())
    if _SPARK_READERS.search(plan):
        _refuse("this frame reads a CSV or JSON file, whose types may be")
    strict = frame.sparkSession.conf.get("spark.sql.ansi.enabled") == "true"
    if strict and _SPARK_CASTS.search(plan):
        raise SchemaError("the frame has a cast, which fails if one value cannot be cast: write try_cast.")


def _check_readers(text: str) -> None:
    if _READERS.search(text):
        _refuse("this frame reads a CSV or JSON file, or a frame of another library, whose types may be")


def _refuse(subject: str) -> NoReturn:
    raise SchemaError(
        f"{subject} guessed from some of the values, so that one value could make an error: give the "
        f"path of the "
        "CSV files or the frame itself, or files with types (Parquet, Arrow)."
    )


def check_dataset(dataset: Any) -> None:
    """Refuse a pyarrow dataset of files without types, or of files that its types do not fit."""
    import pyarrow.dataset as ds

    if isinstance(dataset, ds.UnionDataset):
        for child in dataset.children:
            check_dataset(child)
    if not isinstance(dataset, ds.FileSystemDataset):
        return
    untyped = (ds.CsvFileFormat, getattr(ds, "JsonFileFormat", ds.CsvFileFormat))
    if isinstance(dataset.format, untyped):
        _refuse("the types of a dataset of CSV or JSON files are")
    for fragment in dataset.get_fragments():
        stored = fragment.physical_schema
        for field in dataset.schema:
            if field.name in stored.names and not _fits(stored.field(field.name).type, field.type):
                raise SchemaError(
                    f"column {field.name!r} of the dataset is {field.type}, and one of its files has it "
                    f"as another "
                    "type: give the path of the files instead."
                )


def _fits(stored: Any, wanted: Any) -> bool:
    """Whether every value of one type is read as another without an error."""
    types = sys.modules["pyarrow"].types
    if types.is_null(stored) or stored == wanted:
        return True
    texts = ("string", "large_string", "string_view")
    inner = [str(t.value_type if types.is_dictionary(t) else t) for t in (stored, wanted)]
    return all(t in texts for t in inner)
