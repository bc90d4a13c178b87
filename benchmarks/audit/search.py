"""The neighbour search: for every mechanism, neighbours that strain its sensitivity, found by hill climbing
from extremes.

    python benchmarks/audit/search.py            all targets, to search.csv (ten minutes on two busy cores)
    python benchmarks/audit/search.py --quick    fewer evaluations, to the screen
    python benchmarks/audit/search.py --only NAME [--update]   the targets whose name contains NAME

Every ratio is of something exact to what a proof allows: none may exceed 1, and that of a broken variant
must. The exit status says whether all is so. What is searched, and how: README.md.
"""

import argparse
import multiprocessing
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

# the parent, so that this folder is a package and not its module of the same name
sys.path.insert(0, str(Path(__file__).parents[1]))

from audit.climb import climb  # noqa: E402
from audit.search_replays import TARGETS as REPLAYS  # noqa: E402
from audit.search_statistics import TARGETS as STATISTICS  # noqa: E402
from audit.search_units import TARGETS as UNITS  # noqa: E402

RESULTS = Path(__file__).with_name("search.csv")
SEED = 20261122
ROUNDING = 1e-9
"""By so much a ratio may exceed 1: it is itself computed in doubles."""
TARGETS = (*REPLAYS, *UNITS, *STATISTICS)


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    mechanism: str
    neighbours: str
    ratio: str
    evaluations: int
    largest: float
    broken: str
    broken_largest: float
    broken_evaluations: int

    @property
    def expected(self):
        """Whether the mechanism is within its bound and the broken variant beyond it."""
        return self.largest <= 1 + ROUNDING < self.broken_largest


def row_of(target, quick=False):
    """Search a target and its broken variant, the latter until it exceeds 1."""
    evaluations = target.quick if quick else target.evaluations
    found = climb(target, evaluations, SEED, 1 + ROUNDING)
    with target.broken.applied():
        # never fewer: it stops by itself
        broken = climb(target, target.evaluations, SEED, 1 + ROUNDING, stop=True)
    return Row(
        target.name,
        target.neighbours,
        target.ratio,
        found.evaluations,
        found.ratio,
        target.broken.what,
        broken.ratio,
        broken.evaluations,
    )


def _row_at(job):
    index, quick = job
    start = time.perf_counter()
    return row_of(TARGETS[index], quick), time.perf_counter() - start


def search(quick=False, only="", processes=2):
    """Yield the rows, and the seconds that each took, of the targets whose name contains `only`."""
    jobs = [(i, quick) for i, target in enumerate(TARGETS) if only in target.name]
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        yield from pool.imap(_row_at, jobs)


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer evaluations; nothing is written")
    parser.add_argument("--only", default="", help="part of a target's name; nothing is written")
    parser.add_argument("--update", action="store_true", help="write the rows of --only into search.csv")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args(arguments)
    rows, start = [], time.perf_counter()
    writing = options.update or not (options.quick or options.only)
    for row, seconds in search(options.quick, options.only, options.processes):
        rows.append(row)
        if writing:
            write(rows)
        mark = "ok   " if row.expected else "WRONG"
        print(
            f"{mark} {row.largest:.6f}  {row.mechanism}, {row.neighbours}; broken {row.broken_largest:.4g} "
            f"after {row.broken_evaluations}  ({seconds:.1f} s)",
            flush=True,
        )
    wrong = [row for row in rows if not row.expected]
    pairs = sum(row.evaluations for row in rows)
    print(
        f"{len(rows)} targets, {pairs:,} pairs in {time.perf_counter() - start:.0f} s, "
        f"{len(wrong)} not as expected",
        flush=True,
    )
    return 1 if wrong else 0


def write(rows):
    """Put rows into the committed table, in the order of the targets; other targets' rows stay."""
    table = pd.DataFrame(rows)
    order = {(target.name, target.neighbours): i for i, target in enumerate(TARGETS)}
    if RESULTS.exists():
        old = pd.read_csv(RESULTS)
        new = set(zip(table.mechanism, table.neighbours, strict=True))
        kept = [key in set(order) - new for key in zip(old.mechanism, old.neighbours, strict=True)]
        table = pd.concat([old[kept], table])
    place = [order[key] for key in zip(table.mechanism, table.neighbours, strict=True)]
    table.assign(place=place).sort_values("place").drop(columns="place").to_csv(
        RESULTS, index=False, float_format="%.7g"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
