"""What a relation of duckdb reads: the sources of its plan, and the readers of Parquet files in its text.

The plan is the one before duckdb's optimiser, which leaves sources out by the least and largest value of a
column. A plan does not say which files it reads, so their paths are taken from the text of the query, as
duckdb itself parses it.
"""

import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dpstats.errors import SchemaError

__all__ = ["ParquetReader", "files_of", "parquet_readers", "sources"]

# the name by which a query of ours could read the relation
_NAME = "dpstats_relation"
_READERS = {"read_parquet", "parquet_scan"}
_READS_NO_FILES = {"range", "generate_series", "repeat", "unnest"}
_PHASES = 3  # the plan as it is bound, as it is optimised, and as it is run
_OFF = {"false", "0"}
# the setting is one for all connections to a database
_explaining = threading.Lock()


@dataclass(frozen=True)
class ParquetReader:
    """A reader of Parquet files: its paths, None where they are computed, and its options as texts."""

    paths: tuple[str, ...] | None
    options: Mapping[str, str]

    @property
    def without_folders(self) -> bool:
        """Whether no column has a type that is made from the names of folders."""
        texts = self.options.get("hive_types_autocast") in _OFF and "hive_types" not in self.options
        return texts or self.options.get("hive_partitioning") in _OFF


def sources(relation: Any) -> list[str]:
    """The operators without inputs of a relation's plan, before anything of it was left out."""
    try:
        phases = _phases(relation.explain(format="json"))
    except TypeError:
        raise SchemaError(
            "a relation of duckdb before 2.0 does not say in a form that can be checked what it reads: use a "
            "later one, or give relation.to_arrow_table()."
        ) from None
    if len(phases) != _PHASES:
        phases = _phases(_explained_in_full(relation))
    if len(phases) != _PHASES:
        raise SchemaError(
            "the plan of the relation is not of a form that can be checked: give relation.to_arrow_table()."
        )
    return list(_leaves(phases[0]))


def _explained_in_full(relation: Any) -> str:
    """All plans of a relation; the user's setting is as it was afterwards."""
    with _explaining:
        ((before,),) = _asked(relation, "select system.main.current_setting('explain_output')")
        try:
            relation.query(_NAME, "set explain_output = 'all'")
        except Exception:
            raise SchemaError(
                "the plan of the relation cannot be checked, as its connection does not let settings be "
                "changed: write SET explain_output = 'all' before lock_configuration, or give "
                "relation.to_arrow_table()."
            ) from None
        try:
            return str(relation.explain(format="json"))
        finally:
            relation.query(_NAME, f"set explain_output = {_literal(before)}")


def _phases(text: str) -> list[Any]:
    """The JSON documents that stand one after the other in a text."""
    decoder, found = json.JSONDecoder(), []
    text = text.strip()
    while text:
        document, end = decoder.raw_decode(text)
        found.append(document)
        text = text[end:].lstrip()
    return found


def _leaves(plan: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The operators of a plan that have no inputs."""
    for node in plan:
        yield from _leaves(node["children"]) if node["children"] else (node["name"].strip(),)


def parquet_readers(relation: Any) -> list[ParquetReader] | None:
    """The readers of Parquet files in the text of a relation, or None if that may not show all of them."""
    asked = f"select system.main.json_serialize_sql({_literal(relation.sql_query())})"
    ((answer,),) = _asked(relation, asked)
    nodes = list(_nodes(json.loads(answer)))
    if nodes[0]["error"]:
        return None
    tables = _names(relation, "select table_name from duckdb_tables()")
    views = _names(relation, "select view_name from duckdb_views() where not internal")
    macros = _names(
        relation,
        "select function_name from duckdb_functions() where function_type like '%macro' and not internal",
    )
    parts = {str(entry["key"]).lower() for node in nodes for entry in node.get("cte_map", {}).get("map", ())}
    found = []
    for node in nodes:
        if node.get("class") == "FUNCTION" and node["function_name"].lower() in macros:
            return None
        if node.get("type") == "TABLE_FUNCTION":
            name = node["function"]["function_name"].lower()
            if name in _READERS:
                found.append(_reader(node["function"]))
            elif name not in _READS_NO_FILES:
                return None
        elif node.get("type") == "BASE_TABLE":
            path = ".".join(node["qualified_name"]["path"])
            name = node["qualified_name"]["path"][-1].lower()
            if name in views:
                return None
            if ".parquet" in path.lower():
                found.append(ParquetReader((path,), {}))
            elif name not in tables | parts:
                return None
    return found


def _reader(function: Mapping[str, Any]) -> ParquetReader:
    given, options = [], {}
    for argument in function.get("arguments", ()):
        value, name = argument["expression"], argument.get("name", "")
        if not name and value["type"] == "COMPARE_EQUAL" and value["left"]["type"] == "COLUMN_REF":
            name, value = value["left"]["column_names"][-1], value["right"]
        if name:
            options[name.lower()] = str(value.get("literal", {}).get("text")).lower()
        else:
            given.append(value)
    return ParquetReader(_paths(given[0]) if len(given) == 1 else None, options)


def _paths(value: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The texts of a literal, or of a list of literals."""
    entries = [value]
    if value.get("function_name") == "list_value":
        entries = [argument["expression"] for argument in value.get("arguments", ())]
    literals = [entry.get("literal", {}) for entry in entries]
    if not all(literal.get("kind") == "STRING" for literal in literals):
        return None
    return tuple(literal["text"] for literal in literals)


def files_of(relation: Any, patterns: Iterable[str]) -> set[str]:
    """The files that duckdb finds under the patterns, and those that are in folders of these names."""
    wanted = set(patterns)
    # (duckdb reads a folder with all below it, and finds none by a pattern)
    wanted |= {f"{path.rstrip('/')}/**" for path in wanted if not set("*?") & set(path)}
    listed = ", ".join(map(_literal, sorted(wanted)))
    return {file for (file,) in _asked(relation, f"select file from system.main.glob([{listed}]::varchar[])")}


def _nodes(tree: Any) -> Iterator[Mapping[str, Any]]:
    """All objects of a JSON document, outermost first."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node


def _names(relation: Any, query: str) -> set[str]:
    return {str(name).lower() for (name,) in _asked(relation, query)}


def _asked(relation: Any, query: str) -> list[tuple[Any, ...]]:
    """The rows of a query on the connection of a relation, which it does not read."""
    answer: list[tuple[Any, ...]] = relation.query(_NAME, query).fetchall()
    return answer


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
