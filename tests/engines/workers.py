"""Tables whose rows are made on workers; a worker imports this module."""

import os
from pathlib import Path

import numpy as np
import pandas as pd

from dpstats.engines import dask, kept, partitions

ROWS = 4_000


def part(index, rows=ROWS):
    g = np.random.default_rng(index)
    a, b = g.standard_normal(rows), 50 + 10 * g.standard_normal(rows)
    f = g.choice(["p", "q"], rows)
    y = 1 + a + 0.2 * b + (f == "q") + g.standard_normal(rows)
    z = (g.random(rows) < 1 / (1 + np.exp(-a))).astype(float)
    k = g.poisson(np.exp(0.3 * a)).astype(float)
    return pd.DataFrame({"a": a, "b": b, "f": f, "y": y, "z": z, "k": k})


def whole(parts):
    return pd.concat([part(i) for i in range(parts)], ignore_index=True)


def grouped(index, make=part, **more):
    """A part whose rows are in groups, each spread over all parts, or in none that is declared."""
    return make(index, **more).assign(g=np.tile(["r", "s", "t", "s", "none"], ROWS // 5))


def of_units(index, make=part, **more):
    """A part whose units have rows in all parts, by numbers and by names, of which some are missing."""
    made = make(index, **more)
    u = (made["b"] // 0.02).to_numpy()
    names = np.array([None if i % 50 == 0 else f"p{i:.0f}" for i in u], dtype=object)
    return made.assign(u=np.where(u % 41 == 0, np.nan, u), name=pd.array(names, dtype="string"))


def killing(index, folder, at):
    """A part; the worker that makes number 1 of them for the `at`-th time is killed."""
    if index == 1:
        made = Path(folder) / "made"
        with made.open("a") as file:
            file.write("x")
        if made.stat().st_size == at:
            os._exit(1)
    return part(index)


def failing(index, folder, at):
    """A part; number 1 fails from the `at`-th time on."""
    if index == 1:
        made = Path(folder) / "made"
        with made.open("a") as file:
            file.write("x")
        if made.stat().st_size >= at:
            raise ValueError("the row of Ms Smith")
    return part(index)


_VERSION = partitions.version


def told(version=None):
    """Make this worker's dpstats another version, or again what it is."""
    partitions.version = dask.version = (lambda: version) if version else _VERSION


def nameless(dask_worker):
    """How many files without a name this worker has open in its directory."""
    fds = [Path("/proc/self/fd") / fd for fd in os.listdir("/proc/self/fd")]
    files = [os.readlink(fd) for fd in fds if os.path.lexists(fd)]
    return sum(f.startswith(dask_worker.local_directory) and f.endswith("(deleted)") for f in files)


def held():
    """For each file of this worker how much may be in memory in its place, and how many blocks are."""
    return {file.most for file in kept._FILES.values()}, len(kept._Held._now)
