"""Results on disk: rows as they come in one folder, the committed tables in another, and the way from one to
the other."""

import gzip
import io
import json
from pathlib import Path

import pandas as pd

from suite import accuracy, memory, speed, validity

PARTS = {"accuracy": accuracy, "validity": validity, "memory": memory, "speed": speed}
COMMITTED = Path(__file__).parents[1] / "results"
DIGITS = "%.5g"


class Log:
    """One part's rows as they come: a JSON line for each task, so that an interrupted run can go on.

    Parameters
    ----------
    path : Path
    run : dict
        The environment; a log of other code or packages is not gone on with.
    resume : bool
    """

    def __init__(self, path, run, resume):
        self.path, self.done = Path(path), {}
        same = ("mode", "processor", "python", "code", "numpy")
        if resume and self.path.exists():
            lines = list(_whole_lines(self.path.read_text()))
            if lines and all(lines[0].get(k) == run[k] for k in same):
                run["run"] = lines[0]["run"]
                self.done = {_key(line["task"]): line["rows"] for line in lines[1:]}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "w") as file:
            file.write(json.dumps(run) + "\n")
            file.writelines(
                json.dumps({"task": json.loads(k), "rows": rows}) + "\n" for k, rows in self.done.items()
            )

    def add(self, task, rows):
        """Append the rows of one task."""
        self.done[_key(task)] = rows
        with open(self.path, "a") as file:
            file.write(json.dumps({"task": task, "rows": rows}) + "\n")

    def missing(self, tasks):
        """The tasks that are not there yet."""
        return [task for task in tasks if _key(task) not in self.done]

    def table(self):
        """All rows as a frame, in the order of the tasks' names."""
        return pd.DataFrame([row for key in sorted(self.done) for row in self.done[key]])


def _whole_lines(text):
    for line in text.splitlines():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:  # cut off when the run was interrupted
            return


def _key(task):
    return json.dumps(task, sort_keys=True)


def read(name, folder=None):
    """A table as written; an empty frame if there is none."""
    path = Path(folder or COMMITTED) / name
    if not path.exists():
        return pd.DataFrame()
    return pd.read_csv(path, dtype={"eps": str}, keep_default_na=True).assign(**_texts(path))


def _texts(path):
    """Columns whose empty fields are empty texts."""
    header = pd.read_csv(path, nrows=0).columns
    names = [c for c in ("eps", "failure", "coefficient", "about") if c in header]
    return (
        pd.read_csv(path, usecols=names, dtype=str, keep_default_na=False)[names].to_dict("series")
        if names
        else {}
    )


def write(table, name, folder):
    """Write a table; ``.gz`` without a time stamp, so that equal tables are equal files."""
    text = io.StringIO()
    table.to_csv(text, index=False, float_format=DIGITS, lineterminator="\n")
    path = Path(folder) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.getvalue().encode()
    path.write_bytes(gzip.compress(data, mtime=0) if name.endswith(".gz") else data)


def tables(part, raw, run):
    """The tables of a part: file name to frame, each row with the run it comes from."""
    module = PARTS[part]
    found = {f"{part}.csv": module.summary(raw).assign(run=run["run"])}
    if part == "accuracy":
        found["accuracy_runs.csv.gz"] = accuracy.checked(raw).assign(run=run["run"])
    return found


def merge(old, new, key):
    """`new`, and the rows of `old` whose key is not in it."""
    if old.empty:
        return new
    known = set(new[key].astype(str).itertuples(index=False, name=None))
    kept = [row not in known for row in old[key].astype(str).itertuples(index=False, name=None)]
    return pd.concat([new, old[kept]], ignore_index=True)


def publish(folder, parts):
    """Put the tables of a run's folder in the place of the committed ones, row by row; what has left the
    suite goes."""
    for part in parts:
        key = PARTS[part].KEY
        for path in sorted(Path(folder).glob(f"{part}.csv")) + sorted(
            Path(folder).glob(f"{part}_runs.csv.gz")
        ):
            merged = merge(read(path.name), read(path.name, folder), key)
            column, names = PARTS[part].KNOWN
            merged = merged[merged[column].isin(names)]
            if path.name == f"{part}.csv":
                merged = PARTS[part].ordered(merged)
            write(merged, path.name, COMMITTED)
    runs = merge(read("runs.csv"), read("runs.csv", folder), ["run"])
    used = set().union(*(read(f"{part}.csv").get("run", []) for part in PARTS))
    write(runs[runs["run"].isin(used)].sort_values("run"), "runs.csv", COMMITTED)


def runs(run):
    """The list of runs that has this one."""
    return pd.DataFrame([run])
