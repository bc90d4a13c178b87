"""Sources whose types are guessed from values, or that stop at a value which does not fit: refused, always.

Such a source says things about rows before, or while, they are read, and out of reach of any mechanism. The
checks look at query plans and at the types that files declare, and at no value.
"""

import re
import sys
import threading
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NoReturn
from urllib.parse import unquote

from dpstats._validation import quoted
from dpstats.data.dictionaries import is_narrow
from dpstats.data.duckdb_query import files_of, parquet_readers, sources
from dpstats.data.files import arrow_schema, need_pyarrow
from dpstats.errors import SchemaError

__all__ = ["check_dask", "check_dataset", "check_duckdb", "check_polars", "check_spark", "refuse_lazy"]

# How the query plans of polars and dask name what reads files without types, or objects of Python.
_READERS = re.compile("(csv|json) scan|read[_-]?(nd)?(csv|json|table|fwf|sql)|python[_ ]scan", re.IGNORECASE)

# What the plans of duckdb may begin with: its own tables, files with types, results that are held in memory,
# and no rows of anybody. SQLite and Excel have a type for each value, duckdb looks at some values of a pandas
# frame, and what is behind other objects of Python, a dataset of CSV files say, is not to be seen.
_PARQUET = {"READ_PARQUET", "PARQUET_SCAN"}
_TYPED = _PARQUET | {
    *("SEQ_SCAN", "CHUNK_GET", "CTE_SCAN", "DELIM_SCAN", "DUMMY_SCAN", "EMPTY_RESULT"),
    *("RANGE", "GENERATE_SERIES", "REPEAT", "UNNEST"),
}

# a folder that is named after a column and one of its values (".../year=2024/..."), in a path or in a plan
_FOLDER = re.compile(r"(?:^|[/\\]|SCAN \[)([^/\\=]+)=[^/\\]*(?=[/\\])")
# files of another machine in one folder
_REMOTE_FILES = re.compile(r"[^*?\[]*/[^/]*\.parquet[^/]*", re.IGNORECASE)

# what the nodes of a plan of Spark read ("Relation [a#1,b#2] csv", "RelationV2[a#1] csv", and of Hive by a
# class that is named after the files), nothing where it is not said; a name may have a line break, so that a
# node ends at another line
_SPARK_RELATIONS = re.compile(
    r"^(?:[\s:|+-]*(?:Streaming)?Relation(?:V2)?\b(?:.*\] *(\S+))?"
    r"|[\s:|+-]*HiveTableRelation\b(?:.*\.(\w+Ser[Dd]e)\b)?"
    r"|.*#\d+L?\] +(\S+))",
    re.MULTILINE,
)
_SPARK_TYPED = re.compile("(parquet|orc|avro)(HiveSerDe|SerDe)?", re.IGNORECASE)
_SPARK_FOLDERS = "spark.sql.sources.partitionColumnTypeInference.enabled"
_SPARK_FIELDS = "spark.sql.debug.maxToStringFields"
_SPARK_LEFT_OUT = re.compile(r"\.\.\. \d+ more (fields|characters)")
# (the setting is one for all threads of a session)
_showing = threading.Lock()
# as polars shows categories with codes of 8 or 16 bits in a query, and in a type
_NARROW = re.compile(r"Categorical\(.*(, U|physical=pl\.UInt)(8|16)\)")
_MADE_TEXTS = re.compile(r"categorical_to_string\W+(true|allow)", re.IGNORECASE)
_NOT_SELECTED = "by .select(...) of the others"
_SPARK_CASTS = re.compile(r"(?<!_)\bcast\(", re.IGNORECASE)


def check_polars(frame: Any) -> None:
    """Refuse a lazy frame of polars, by its query plan, its columns and the footers of the files it reads."""
    query_plan = frame.explain(optimized=False)
    _check_readers(query_plan)
    plan = frame._ldf.visit()
    # (a plan shows some of the paths)
    paths = [str(path) for scan in _scans(plan) for path in getattr(scan, "paths", ())]
    folders = _folders([query_plan, *paths])
    columns = frame.collect_schema().names() if folders else ()
    read = {name for name in folders if name in columns or f'col("{name}")' in query_plan}
    _check_folders(read, "hive_partitioning=False in scan_parquet() leaves it out")
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
    plan = frame._ldf.visit()
    for scan in _scans(plan):
        _check_scan(plan, scan)


def _scans(plan: Any) -> Iterator[Any]:
    """The nodes of a plan of polars that have no inputs, each while it is the current one; None where polars
    does not show it, as of bytes in memory."""
    waiting, seen = [plan.get_node()], set()
    while waiting:
        node = waiting.pop()
        plan.set_node(node)
        inputs = plan.get_inputs()
        waiting += [other for other in inputs if other not in seen]
        seen.update(inputs)
        if not inputs:
            try:
                yield plan.view_current_node()
            except NotImplementedError:
                yield None


def _check_scan(plan: Any, scan: Any) -> None:
    """Refuse narrow dictionaries in what a scan reads, the current node of a plan of polars."""
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
    read = sources(relation)
    if not _TYPED.issuperset(read):
        _refuse(
            "this relation reads more than tables of duckdb and Parquet files, as a CSV or SQLite file or a "
            "frame of another library, whose types may be"
        )
    files = sum(name in _PARQUET for name in read)
    if not files:
        return
    readers = parquet_readers(relation)
    if readers is None or len(readers) < files:
        _refuse_unseen("in a view, a macro or another relation")
    open_ones = [reader.paths for reader in readers if not reader.without_folders]
    if None in open_ones:
        _refuse_unseen("by a path that is computed")
    patterns = [path for paths in open_ones for path in paths or ()]
    how = "hive_types_autocast=false in read_parquet() makes texts of all"
    local = {pattern for pattern in patterns if "://" not in pattern}
    _check_folders(_folders([*patterns, *files_of(relation, local)]), how)
    if not all(_REMOTE_FILES.fullmatch(pattern) for pattern in patterns if pattern not in local):
        raise SchemaError(
            "the relation reads folders of another machine, whose names may be columns with types that "
            f"are guessed from all of them: {how}."
        )


def _refuse_unseen(where: str) -> NoReturn:
    raise SchemaError(
        f"the relation reads Parquet files {where}, so that its text does not show whether columns are made "
        "from the names of folders: write read_parquet('...', hive_partitioning=false) in the query itself, "
        "or give con.table() of a table made of it, or relation.to_arrow_table()."
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
    plan = _shown_by_spark(frame)
    if _SPARK_LEFT_OUT.search(plan):
        raise SchemaError(
            "the plan of the frame is not shown in full, so that what it reads cannot be checked: leave "
            "spark.sql.maxPlanStringLength as it is, and give columns short names with .alias()."
        )
    if not all(_SPARK_TYPED.fullmatch("".join(found)) for found in _SPARK_RELATIONS.findall(plan)):
        _refuse(
            "this frame reads more than Parquet, ORC and Avro files, as a CSV or JSON file, whose types "
            "may be"
        )
    if frame.sparkSession.conf.get(_SPARK_FOLDERS, "true") != "false":
        for columns, files in _files_of_spark(frame._jdf.queryExecution().analyzed()):
            # (Spark takes upper and lower case for one)
            read = {name for name in _folders(files) if name.casefold() in columns}
            _check_folders(read, f"{_SPARK_FOLDERS} = false makes texts of all")
    strict = frame.sparkSession.conf.get("spark.sql.ansi.enabled") == "true"
    if strict and _SPARK_CASTS.search(plan):
        raise SchemaError("the frame has a cast, which fails if one value cannot be cast: write try_cast.")


def _shown_by_spark(frame: Any) -> str:
    """The plan of a frame with all its columns; the user's setting is as it was afterwards."""
    session = frame.sparkSession
    conf = (type(session).getActiveSession() or session).conf
    with _showing:
        before = conf.get(_SPARK_FIELDS, None)
        conf.set(_SPARK_FIELDS, str(2**31 - 1))
        try:
            return str(frame._jdf.queryExecution().analyzed())
        finally:
            if before is None:
                conf.unset(_SPARK_FIELDS)
            else:
                conf.set(_SPARK_FIELDS, before)


def _files_of_spark(plan: Any) -> Iterator[tuple[set[str], list[str]]]:
    """The names of columns, in lower case, and the files of what a plan and its subqueries read."""
    for part in (plan, *_items(plan.subqueriesAll())):
        for leaf in _items(part.collectLeaves()):
            kind = leaf.getClass().getSimpleName()
            if kind == "LogicalRelation":
                index = leaf.relation().location()
            elif kind == "DataSourceV2Relation":
                index = leaf.table().fileIndex()
            else:
                continue
            yield {column.name().casefold() for column in _items(leaf.output())}, list(index.inputFiles())


def _items(sequence: Any) -> list[Any]:
    """The items of a sequence of Scala."""
    return [sequence.apply(i) for i in range(sequence.size())]


def _folders(paths: Iterable[str]) -> set[str]:
    """The columns that folders are named after, as they are written and as libraries decode them: Spark
    encodes a name for the folder, and the folder for the path."""
    names = {name for path in paths for name in _FOLDER.findall(path)}
    once = names | {unquote(name) for name in names}
    return once | {unquote(name) for name in once}


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
