"""The privacy audit: a lower bound on eps for every mechanism and estimator, and for a broken variant of
each.

    python benchmarks/audit/audit.py           all rows, to audit.csv (about an hour on one core)
    python benchmarks/audit/audit.py --quick   some of them with fewer runs, to the screen (about two minutes)
    python benchmarks/audit/audit.py --only NAME [--update]   the rows whose target contains NAME

Every row has the ``eps`` that its mechanism promises. A correct mechanism must stay below it, its broken
variant above; the exit status says whether all did. What the rows are, and how to read them: README.md.
"""

import argparse
import multiprocessing
import platform
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

# the parent, so that this folder is a package and not its module of the same name
sys.path.insert(0, str(Path(__file__).parents[1]))

import dpstats  # noqa: E402
from audit.bounds import lower_bound  # noqa: E402
from audit.canaries import CASES as CANARIES  # noqa: E402
from audit.estimators import CASES as ESTIMATORS  # noqa: E402
from audit.mechanisms import CASES as MECHANISMS  # noqa: E402
from dpstats.mechanisms.rng import Randomness  # noqa: E402

RESULTS = Path(__file__).with_name("audit.csv")
SEED = 20261121


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    target: str
    variant: str
    neighbours: str
    measure: str
    delta: float
    randomness: str
    runs: int
    p: float
    q: float
    lower_bound: float
    limit: float
    expected: str
    verdict: str
    seconds: float


def rows_of(case, runs=None):
    """The two lines of a case: as it is, and broken.

    Parameters
    ----------
    case : harness.Case
    runs : int, optional
        On either data set, instead of the case's own.
    """
    broken = case.broken
    with case.setup():
        yield _row(case, "correct", case.sample, runs or case.runs, case.neighbours)
        with broken.applied():
            few = min(broken.runs or case.runs, runs or case.runs)
            sample, neighbours = broken.sample or case.sample, broken.neighbours or case.neighbours
            yield _row(case, f"broken: {broken.what}", sample, few, neighbours)


def _row(case, variant, sample, runs, neighbours):
    start = time.perf_counter()
    # broken variants may overflow; what is computed from it is scored like anything else
    with np.errstate(all="ignore"):
        bound = lower_bound(
            *sample(runs, Randomness(None if case.system else SEED)), case.measure, case.delta
        )
    below = bound.eps < case.eps
    return Row(
        case.target,
        variant,
        neighbours,
        {"dp": "(eps, delta)", "gdp": "mu-GDP"}[case.measure],
        case.delta,
        "system" if case.system else "seeded",
        runs,
        bound.p,
        bound.q,
        bound.eps,
        case.eps,
        "below" if variant == "correct" else "above",
        "below" if below else "above",
        time.perf_counter() - start,
    )


CASES = (*MECHANISMS, *CANARIES, *ESTIMATORS)


def _rows_at(job):
    index, quick = job
    return list(rows_of(CASES[index], CASES[index].quick if quick else None))


def audit(quick=False, only="", processes=1):
    """Yield the rows of all cases, or of those whose target contains `only`."""
    jobs = [(i, quick) for i, case in enumerate(CASES) if only in case.target and (case.quick or not quick)]
    if processes == 1:
        for job in jobs:
            yield from _rows_at(job)
        return
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        for rows in pool.imap(_rows_at, jobs):
            yield from rows


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rows and runs; nothing is written")
    parser.add_argument("--only", default="", help="part of a target's name; nothing is written")
    parser.add_argument("--update", action="store_true", help="write the rows of --only into audit.csv")
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args(arguments)
    rows, start = [], time.perf_counter()
    for row in audit(options.quick, options.only, options.processes):
        rows.append(row)
        mark = "ok   " if row.verdict == row.expected else "WRONG"
        print(
            f"{mark} {row.lower_bound:6.3f}  {row.target}, {row.variant}  ({row.seconds:.1f} s)", flush=True
        )
    wrong = [row for row in rows if row.verdict != row.expected]
    print(
        f"{len(rows)} rows in {time.perf_counter() - start:.0f} s, {len(wrong)} not as expected", flush=True
    )
    if options.update or not (options.quick or options.only):
        write(rows)
    return 1 if wrong else 0


def write(rows):
    """Put rows into the committed table, in the order of the cases; other targets' rows stay."""
    machine = f"{platform.machine()}, Python {platform.python_version()}, "
    machine += f"NumPy {np.__version__}, dpstats {dpstats.__version__}"
    table = pd.DataFrame(rows).assign(machine=machine)
    order = {case.target: i for i, case in enumerate(CASES)}
    if RESULTS.exists():
        old = pd.read_csv(RESULTS)
        table = pd.concat([old[old.target.isin(set(order) - set(table.target))], table])
    table = table.sort_values("target", key=lambda targets: targets.map(order), kind="stable")
    table.to_csv(RESULTS, index=False, float_format="%.4g")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
