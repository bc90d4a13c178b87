"""What every source of rows has: columns that are known by name and dtype, and rows that come in batches."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from dpstats._quiet import quiet
from dpstats.data.columns import Values, arrow_values
from dpstats.data.pandas_column import describe_pandas
from dpstats.data.schema import Column, Schema
from dpstats.engines.partitions import Partitions
from dpstats.engines.progress import progress
from dpstats.errors import SchemaError

__all__ = ["BATCH_ROWS", "Batch", "Source", "arrow_batch", "describe_pandas_frame", "read_safely"]

T = TypeVar("T")

#: Rows per batch of a file: some megabytes, whatever the number of rows of the file.
BATCH_ROWS = 65_536


@dataclass(frozen=True)
class Batch:
    """Some rows of some columns, which are those of :mod:`dpstats.data.columns`, by name."""

    rows: int
    columns: Mapping[str, Values]

    def numbers(self, name: str) -> np.ndarray:
        """Return a column as a numeric array, shape (rows,), NaN where a value is missing or is no number."""
        return read_safely(self.columns[name].numbers)

    def codes(self, name: str, levels: tuple[Any, ...]) -> np.ndarray:
        """Return the positions of the values among the levels, shape (rows,), -1 where one is none."""
        return read_safely(lambda: self.columns[name].codes(levels))

    def keys(self, name: str) -> Any:
        """Return the values of a column, an array to be compared; None or NaN where one is missing."""
        return read_safely(self.columns[name].keys)

    def take(self, rows: np.ndarray) -> "Batch":
        """Return some of the rows, by position."""
        return Batch(len(rows), {name: column.take(rows) for name, column in self.columns.items()})


class Source:
    """Tabular data that have been looked at for names and dtypes alone.

    Attributes
    ----------
    schema : Schema
        What the dtypes say.
    in_memory : bool
        Whether there is one batch with all rows.
    foreign : bool
        Whether code of somebody else's makes the rows, whose errors may quote them, of any type.
    """

    in_memory, foreign = True, False
    _bar: Any = None

    def __init__(self, columns: Iterable[Column], nameless: bool = False) -> None:
        self.schema = Schema(_unrepeated(columns), nameless)

    def batches(self, names: Iterable[str], coded: Set[str] = frozenset()) -> Iterator[Batch]:
        """Yield the rows, of the named columns alone.

        A query, or a cluster, may have another order at the next pass: values that belong together are of one
        pass.

        Parameters
        ----------
        names : sequence of str
        coded : set of str
            Those whose codes will be asked for (:meth:`Batch.codes`), so that a CSV file's are read as text.

        Raises
        ------
        SchemaError
            If the data cannot be read; the message does not say why, since the reason may hold data.
        """
        # A batch without a column would not know its number of rows.
        names = list(names) or [c.name for c in self.schema if c.kind != "repeated"][:1]
        batches = self._batches(names, coded)
        while (batch := read_safely(lambda: next(batches, None), self.foreign)) is not None:
            yield batch
        self._passed()

    def _batches(self, names: list[str], coded: Set[str]) -> Iterator[Batch]:
        raise NotImplementedError

    def partitions(
        self, names: list[str], make: Callable[[Batch], tuple[np.ndarray, np.ndarray]]
    ) -> Partitions | None:
        """Blocks of the named columns that stay on the workers of a cluster; None of rows that are here."""
        return None

    def _passed(self) -> None:
        """Told that a pass over the rows is done, for the progress bar."""
        if self.in_memory:
            return
        if self._bar is None:
            self._bar = progress(None, "passes over the rows", "pass")
        # it is told the time alone: how many passes there are may depend on the rows, and the widget of a
        # notebook, which is saved with it, would hold their number
        self._bar.update(0)

    def close(self) -> None:
        """Let go of what workers keep, and of the progress bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _unrepeated(columns: Iterable[Column]) -> tuple[Column, ...]:
    kept = {}
    for c in columns:
        kept[c.name] = Column(c.name, "repeated", c.dtype) if c.name in kept else c
    return tuple(kept.values())


def read_safely(step: Callable[[], T], foreign: bool = False) -> T:
    """Return what `step()` returns, replacing the error of a reader, whose text may quote data, and without
    warnings.

    (If nothing of it is `foreign`, an OSError with an errno is the system's, about a file. The new error is
    raised outside the handler, so that it does not carry the old one in its ``__context__``.)
    """
    try:
        with quiet(), np.errstate(all="ignore"):
            return step()
    except (SchemaError, ImportError, OSError) as error:
        if not foreign and (not isinstance(error, OSError) or error.errno is not None):
            raise
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException:
        # (A panic of polars is no Exception.)
        pass
    raise SchemaError("the data could not be read.")


def describe_pandas_frame(frame: Any) -> list[Column]:
    named = zip(frame.columns, frame.dtypes, strict=True)
    return [describe_pandas(name, dtype) for name, dtype in named if isinstance(name, str)]


def arrow_batch(table: Any, names: Iterable[str]) -> Batch:
    import pyarrow as pa

    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    return Batch(table.num_rows, {name: arrow_values(table.column(name)) for name in names})
