"""Sources whose types are guessed from values, or that stop at a value which does not fit: refused, always.

Such a source says things about rows before, or while, they are read, and out of reach of any mechanism. The
checks look at query plans and at the types that files declare, and at no value.
"""

import glob
import re
import sys
from collections.abc import Collection, Iterable
from typing import Any, NoReturn

from dpstats._validation import quoted
from dpstats.errors import SchemaError

__all__ = ["check_dask", "check_dataset", "check_duckdb", "check_polars", "check_spark"]

# How the query plans of polars, duckdb and dask name what reads files without types, or objects of Python:
# duckdb looks at some values of a pandas frame, and what is behind the others, a dataset of CSV files say, is
# not to be seen.
_READERS = re.compile(
    "(csv|json) scan|read[_-]?(nd)?(csv|json|table|fwf|sql)|(pandas|arrow|python)[_ ]scan", re.IGNORECASE
)

# a folder that is named after a column and one of its values: ".../year=2024/..."
_FOLDER = re.compile(r"[/\\]([^/\\=\[\]']+)=[^/\\]*(?=[/\\])")
_QUOTED = re.compile("'([^']*)'|\"([^\"]*)\"")
_NO_FOLDERS = re.compile(r"hive_(types_autocast|partitioning) *:?= *'?(false|0)", re.IGNORECASE)

# a relation of files in a plan of Spark: "Relation [a#1,b#2] csv"
_SPARK_READERS = re.compile(r"Relation\b.*\] *(csv|json|text|xml)\b", re.IGNORECASE)
_SPARK_FOLDERS = "spark.sql.sources.partitionColumnTypeInference.enabled"
_SPARK_CASTS = re.compile(r"(?<!_)\bcast\(", re.IGNORECASE)


def check_polars(frame: Any) -> None:
    """Refuse a lazy frame of polars, by the text of its query plan before optimisation and its columns."""
    query_plan = frame.explain(optimized=False)
    _check_readers(query_plan)
    if "strict_cast(" in query_plan:
        raise SchemaError(
            "the lazy frame has a strict cast, which fails if one value cannot be cast: "
            "write .cast(..., strict=False)."
        )
    folders = _folders([query_plan])
    columns = frame.collect_schema().names() if folders else ()
    read = {name for name in folders if name in columns or f'col("{name}")' in query_plan}
    _check_folders(read, "hive_partitioning=False in scan_parquet() leaves it out")


def check_duckdb(relation: Any) -> None:
    """Refuse a relation that reads files without types, or columns from the names of folders."""
    query = relation.sql_query()
    _check_readers(query + relation.explain())
    if not _NO_FOLDERS.search(query):
        how = "hive_types_autocast=false in read_parquet() makes texts of all"
        patterns = ["".join(found) for found in _QUOTED.findall(query)]
        paths = (path for pattern in patterns for path in glob.iglob(pattern, recursive=True))
        _check_folders(_folders([*patterns, *paths]), how)
        if any("://" in pattern and "*" in pattern.rpartition("/")[0] for pattern in patterns):
            raise SchemaError(
                "the relation reads folders of another machine, whose names may be columns with types that "
                f"are guessed from all of them: {how}."
            )


def check_dask(frame: Any) -> None:
    """Refuse a dask frame that comes from files without types, or that fails if a value cannot be cast."""
    for step in frame.expr.walk():
        _check_readers(str(getattr(step, "_name", "")))
        if type(step).__name__ == "AsType":
            raise SchemaError(
                "the frame has a step astype(), which fails if one value cannot be cast: "
                'write dd.to_numeric(..., errors="coerce").'
            )
        facts = getattr(step, "_dataset_info", {})
        folders = facts.get("partition_names") or _folders(file.path for file in facts.get("all_files", ()))
        _check_folders(folders, 'dataset={"partitioning": None} in read_parquet() leaves it out')


def check_spark(frame: Any) -> None:
    """Refuse a frame of Spark that reads files without types, or that fails if one value cannot be cast."""
    plan = str(frame._jdf.queryExecution().analyzed())
    if _SPARK_READERS.search(plan):
        _refuse("this frame reads a CSV or JSON file, whose types may be")
    strict = frame.sparkSession.conf.get("spark.sql.ansi.enabled") == "true"
    if strict and _SPARK_CASTS.search(plan):
        raise SchemaError("the frame has a cast, which fails if one value cannot be cast: write try_cast.")
    if frame.sparkSession.conf.get(_SPARK_FOLDERS, "true") != "false":
        read = {name for name in _folders(frame.inputFiles()) if f"{name}#" in plan}
        _check_folders(read, f"{_SPARK_FOLDERS} = false makes texts of all")


def _folders(paths: Iterable[str]) -> set[str]:
    """The columns that folders are named after."""
    return {name for path in paths for name in _FOLDER.findall(path)}


def _check_folders(names: Collection[str], how: str) -> None:
    if names:
        raise SchemaError(
            f"column {quoted(min(names))} is made from the names of folders, and its type may be guessed "
            "from all of them, so that one value could change how others are read: write it into the files "
            f"({how})."
        )


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
        folders = ds.get_partition_keys(fragment.partition_expression)
        _check_folders(folders.keys() & set(dataset.schema.names), "partitioning=None leaves it out")
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
