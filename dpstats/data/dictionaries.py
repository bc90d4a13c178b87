"""Dictionaries of pyarrow with indices of 8 or 16 bits, as pandas writes categories: read with wider ones.

A Parquet file has the type that its writer needed for one piece of the rows, and where a row group has
several pieces, their values together may be more: readers stop at the first one too many.
"""

import copy
import operator
import re
from typing import Any

__all__ = ["is_narrow", "widened"]

_NARROW = re.compile(r"\bindices=u?int(8|16)\b")


def is_narrow(dtype: Any) -> bool:
    """Whether a pyarrow type is such a dictionary, or holds one."""
    return _NARROW.search(str(dtype)) is not None


def widened(dataset: Any) -> Any:
    """A pyarrow dataset of the same rows, in which columns that are such dictionaries are their values."""
    import pyarrow.dataset as ds

    if not isinstance(dataset, ds.UnionDataset | ds.FileSystemDataset):
        return dataset
    schema = given = dataset.schema
    for i, field in enumerate(schema):
        if is_narrow(field.type) and hasattr(field.type, "index_type"):
            schema = schema.set(i, field.with_type(field.type.value_type))
    if isinstance(dataset, ds.UnionDataset):
        children = [widened(child) for child in dataset.children]
        if schema is given and all(map(operator.is_, children, dataset.children)):
            return dataset
        wide = ds.UnionDataset(schema, [child.replace_schema(schema) for child in children])
    else:
        form, parts, narrow = dataset.format, list(dataset.get_fragments()), set()
        if isinstance(form, ds.ParquetFileFormat):
            stored = (field for part in parts for field in part.physical_schema)
            narrow = {field.name for field in stored if is_narrow(field.type)}
        if schema is given and not narrow:
            return dataset
        if narrow:
            options = copy.copy(form.read_options)
            options.dictionary_columns = options.dictionary_columns | narrow
            form = ds.ParquetFileFormat(options, form.default_fragment_scan_options)
            parts = [_reopened(form, part) for part in parts]
        # (asked for a file system, a dataset of buffers ends the process)
        wide = ds.FileSystemDataset(parts, schema, form, root_partition=dataset.partition_expression)
    kept = dataset._scan_options.get("filter")
    return wide if kept is None else wide.filter(kept)


def _reopened(form: Any, part: Any) -> Any:
    """A fragment of a Parquet file, to be read in another way."""
    groups, where = [group.id for group in part.row_groups], part.partition_expression
    if part.buffer is not None:
        return form.make_fragment(part.buffer, None, where, groups)
    return form.make_fragment(part.path, part.filesystem, where, groups)
