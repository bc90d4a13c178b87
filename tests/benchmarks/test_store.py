"""Logs that survive an interruption, tables that merge, files that are equal when the tables are."""

import numpy as np
import pandas as pd
from suite import store

RUN = {"run": "r1", "mode": "quick", "processor": "p", "python": "3", "code": "c", "numpy": "2"}


def test_an_interrupted_log_goes_on_where_it_was(tmp_path):
    path, tasks = tmp_path / "log.jsonl", [{"k": 1}, {"k": 2}, {"k": 3}]
    log = store.Log(path, dict(RUN), resume=False)
    for task in tasks[:2]:
        log.add(task, [{"k": task["k"], "v": np.nan}])
    path.write_text(path.read_text()[:-5])
    run = RUN | {"run": "r2"}
    log = store.Log(path, run, resume=True)
    assert run["run"] == "r1"
    assert log.missing(tasks) == tasks[1:]
    log.add(tasks[1], [{"k": 2, "v": 2.0}])
    assert store.Log(path, run, resume=True).table()["k"].tolist() == [1, 2]


def test_a_log_of_other_code_is_not_gone_on_with(tmp_path):
    path = tmp_path / "log.jsonl"
    store.Log(path, dict(RUN), resume=False).add({"k": 1}, [])
    assert store.Log(path, RUN | {"code": "other"}, resume=True).missing([{"k": 1}]) == [{"k": 1}]


def test_merge_replaces_what_was_run_again():
    old = pd.DataFrame({"k": [1, 1, 2], "eps": ["1", "1", ""], "v": [10, 11, 12]})
    new = pd.DataFrame({"k": [1, 3], "eps": ["1", "1"], "v": [20, 21]})
    assert store.merge(old, new, ["k", "eps"])["v"].tolist() == [20, 21, 12]
    assert store.merge(pd.DataFrame(), new, ["k"]) is new


def test_tables_come_back_as_written(tmp_path):
    table = pd.DataFrame({"data": ["a", "b"], "eps": ["0.5", ""], "failure": ["", "X"], "r2": [0.25, np.nan]})
    for name in ("t.csv", "t.csv.gz"):
        store.write(table, name, tmp_path)
        first = (tmp_path / name).read_bytes()
        pd.testing.assert_frame_equal(store.read(name, tmp_path), table, check_dtype=False)
        store.write(store.read(name, tmp_path), name, tmp_path)
        assert (tmp_path / name).read_bytes() == first
