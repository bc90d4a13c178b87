"""Sources whose types are guessed from values, or that stop at a value which does not fit: refused, always.

Such a source says things about rows before, or while, they are read, and out of reach of any mechanism. The
checks look at query plans and at the types that files declare, and at no value.
"""

import glob
import json
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NoReturn

from dpstats._validation import quoted
from dpstats.data.dictionaries import is_narrow
from dpstats.data.files import arrow_schema, need_pyarrow
from dpstats.errors import SchemaError

__all__ = ["check_dask", "check_dataset", "check_duckdb", "check_polars", "check_spark", "refuse_lazy"]

# How the query plans of polars and dask name what reads files without types, or objects of Python.
_READERS = re.compile("(csv|json) scan|read[_-]?(nd)?(csv|json|table|fwf|sql)|python[_ ]scan", re.IGNORECASE)

# What the plans of duckdb may begin with: its own tables, files with types, and no rows of anybody. SQLite
# and Excel have a type for each value, duckdb looks at some values of a pandas frame, and what is behind
# other objects of Python, a dataset of CSV files say, is not to be seen.
_TYPED = {
    *("SEQ_SCAN", "TABLE_SCAN", "INDEX_SCAN", "COLUMN_DATA_SCAN", "READ_PARQUET", "PARQUET_SCAN"),
    *("CTE_SCAN", "REC_CTE_SCAN", "DELIM_SCAN", "DUMMY_SCAN", "EMPTY_RESULT"),
    *("RANGE", "GENERATE_SERIES", "REPEAT", "UNNEST"),
}

# a folder that is named after a column and one of its values: ".../year=2024/..."
_FOLDER = re.compile(r"[/\\]([^/\\=\[\]']+)=[^/\\]*(?=[/\\])")
_QUOTED = re.compile("'([^']*)'|\"([^\"]*)\"")
_NO_FOLDERS = re.compile(r"hive_(types_autocast|partitioning) *:?= *'?(false|0)", re.IGNORECASE)

# what the nodes of a plan of Spark read ("Relation [a#1,b#2] csv", "RelationV2[a#1] csv", and of Hive by a
# class that is named after the files), and files that have types
_SPARK_RELATIONS = re.compile(
    r"^[\s:|+-]*(?:(?:Streaming)?Relation(?:V2)?\b.*\] *(\S*)"
    r"|HiveTableRelation\b(?:.*\.(\w+Ser[Dd]e)\b)?)",
    re.MULTILINE,
)
_SPARK_TYPED = re.compile("(parquet|orc|avro)(HiveSerDe|SerDe)?", re.IGNORECASE)
_SPARK_FOLDERS = "spark.sql.sources.partitionColumnTypeInference.enabled"
# as polars shows categories with codes of 8 or 16 bits in a query, and in a type
_NARROW = re.compile(r"Categorical\(.*(, U|physical=pl\.UInt)(8|16)\)")
_MADE_TEXTS = re.compile(r"categorical_to_string\W+(true|allow)", re.IGNORECASE)
_NOT_SELECTED = "by .select(...) of the others"
_SPARK_CASTS = re.compile(r"(?<!_)\bcast\(", re.IGNORECASE)


def check_polars(frame: Any) -> None:
    """Refuse a lazy frame of polars, by its query plan, its columns and the footers of the files it reads."""
    query_plan = frame.explain(optimized=False)
    _check_readers(query_plan)
    if "strict_cast(" in query_plan:
        raise SchemaError(
            "the lazy frame has a strict cast, which fails if one value cannot be cast: "
            "write .cast(..., strict=False)."
        )
    if _NARROW.search(query_plan):
        raise SchemaError(
            "the lazy frame has a cast to categories of 8 or 16 bits, which fails if there are too many: "
            "write pl.Categorical or pl.Enum([...])."
        )
    folders = _folders([query_plan])
    columns = frame.collect_schema().names() if folders else ()
    read = {name for name in folders if name in columns or f'col("{name}")' in query_plan}
    _check_folders(read, "hive_partitioning=False in scan_parquet() leaves it out")
    plan = frame._ldf.visit()
    waiting, seen = [plan.get_node()], set()
    while waiting:
        node = waiting.pop()
        plan.set_node(node)
        inputs = plan.get_inputs()
        waiting += [other for other in inputs if other not in seen]
        seen.update(inputs)
        if not inputs:
            _check_scan(plan)


def _check_scan(plan: Any) -> None:
    """Refuse narrow dictionaries in what the current node of a plan of polars, without inputs, reads."""
    try:
        scan = plan.view_current_node()
    except NotImplementedError:
        # (of bytes in memory, say)
        scan = None
    if type(scan).__name__ == "DataFrameScan":
        return
    from polars import Enum

    types = {name: str(dtype) for name, dtype in plan.get_schema().items() if not isinstance(dtype, Enum)}
    policy = str(getattr(getattr(scan, "file_options", None), "cast_columns_policy", ""))
    kinds = "Categorical|String" if _MADE_TEXTS.search(policy) else "Categorical"
    names = [name for name, shown in types.items() if re.search(kinds, shown)]
    unseen = [name for name in names if scan is None or _NARROW.search(types[name])]
    if unseen:
        _refuse_narrow(unseen[0], _NOT_SELECTED)
    if names and scan.scan_type[0] == "parquet":
        need_pyarrow("reading categories from the Parquet files of a lazy frame")
        for file in scan.paths:
            _check_stored(arrow_schema(file, "parquet"), names, _NOT_SELECTED)


def _check_stored(schema: Any, names: Iterable[str], how: str) -> None:
    """Refuse narrow dictionaries of a Parquet file in the named columns."""
    for name in names:
        if name in schema.names and is_narrow(schema.field(name).type):
            _refuse_narrow(name, how)


def _refuse_narrow(name: str, how: str) -> NoReturn:
    raise SchemaError(
        f"column {quoted(name)} may be a dictionary with indices of 8 or 16 bits in a file, whose reader "
        "stops at one value too many for them: give the path of the files, write the column as text, or "
        f"leave it out ({how})."
    )


def check_duckdb(relation: Any) -> None:
    """Refuse a relation that reads anything but tables of duckdb and files with types, or columns from the
    names of folders."""
    query = relation.sql_query()
    try:
        plan = json.loads(relation.explain(format="json"))
    except TypeError:
        raise SchemaError(
            "a relation of duckdb before 2.0 does not say in a form that can be checked what it reads: use a "
            "later one, or give relation.to_arrow_table()."
        ) from None
    if not _TYPED.issuperset(_leaves(plan)):
        _refuse(
            "this relation reads more than tables of duckdb and Parquet files, as a CSV or SQLite file or a "
            "frame of another library, whose types may be"
        )
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


def _leaves(plan: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The operators of a plan that have no inputs."""
    for node in plan:
        yield from _leaves(node["children"]) if node["children"] else (node["name"].strip(),)


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
    for step in frame.expr.simplify().walk():
        facts = getattr(step, "_dataset_info", {})
        # (with Arrow's file systems Dask casts what it reads)
        given = facts.get("fragments")
        parts = [one.fragment for one in given] if given is not None else _fragments(facts.get("ds"))
        for stored in (part.physical_schema for part in parts):
            names = stored.names if getattr(step, "filters", None) else step.columns
            _check_stored(stored, names, "columns=[...] in read_parquet()")
            if given is not None:
                _check_types(stored, facts["schema"], names)


def check_spark(frame: Any) -> None:
    """Refuse a frame of Spark that reads files without types, or that fails if one value cannot be cast."""
    plan = str(frame._jdf.queryExecution().analyzed())
    if not all(_SPARK_TYPED.fullmatch("".join(found)) for found in _SPARK_RELATIONS.findall(plan)):
        _refuse(
            "this frame reads more than Parquet, ORC and Avro files, as a CSV or JSON file, whose types "
            "may be"
        )
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


def refuse_lazy(frame: Any) -> NoReturn:
    """Refuse a lazy frame of a library for which there is no check here, as ibis."""
    raise SchemaError(
        f"lazy frames of {type(frame).__module__.partition('.')[0]} cannot be used, as what their engine "
        "reads may have types that are guessed from some of the values: give the engine's own frame (duckdb, "
        "polars, dask or Spark), or a table in memory (to_pyarrow())."
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
    names = dataset.schema.names
    for fragment in dataset.get_fragments():
        folders = ds.get_partition_keys(fragment.partition_expression)
        _check_folders(folders.keys() & set(dataset.schema.names), "partitioning=None leaves it out")
        if isinstance(dataset.format, ds.ParquetFileFormat):
            _check_stored(fragment.physical_schema, names, "by schema= of the others")
        _check_types(fragment.physical_schema, dataset.schema, names)


def _fragments(dataset: Any) -> Iterable[Any]:
    return () if dataset is None else dataset.get_fragments()


def _check_types(stored: Any, wanted: Any, names: Collection[str]) -> None:
    """Refuse types of a dataset, of which the named columns are read, that those of a file do not fit."""
    for field in wanted:
        if field.name not in names or field.name not in stored.names:
            continue
        if not _fits(stored.field(field.name).type, field.type):
            raise SchemaError(
                f"column {field.name!r} of the dataset is {field.type}, and one of its files has it as "
                "another type: give the path of the files instead."
            )


def _fits(stored: Any, wanted: Any) -> bool:
    """Whether every value of one type is read as another without an error."""
    types = sys.modules["pyarrow"].types
    if types.is_null(stored) or stored == wanted:
        return True
    texts = ("string", "large_string", "string_view")
    inner = [str(t.value_type if types.is_dictionary(t) else t) for t in (stored, wanted)]
    return all(t in texts for t in inner) or inner[0] == str(wanted)
