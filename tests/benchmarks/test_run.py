"""The runner on parts that take no time: rows, tables, the list of runs, and the audit beside them."""

import pytest
import run
from suite import store


class Part:
    """A part with two tasks, one of which fails."""

    KEY = ["task"]

    @staticmethod
    def tasks(mode, folder):
        return [{"task": "good"}, {"task": "bad"}]

    @staticmethod
    def run(task):
        return {"good": [{"task": "good", "value": 1.5}]}[task["task"]]

    @staticmethod
    def summary(raw):
        return raw


def in_process(function, tasks, workers, threads=1):
    for task in tasks:
        try:
            yield task, function(task), None
        except KeyError as error:
            yield task, None, f"KeyError: {error}"


@pytest.fixture
def parts(monkeypatch):
    monkeypatch.setattr(store, "PARTS", {"speed": Part})
    monkeypatch.setattr(run.pool, "run", in_process)


@pytest.mark.parametrize(
    ("code", "said"),
    [("raise SystemExit(0)", "as it should be"), ("print('eps > 1'); raise SystemExit(1)", "eps > 1")],
)
def test_a_failing_case_and_the_audit_are_told(parts, monkeypatch, tmp_path, capsys, code, said):
    script = tmp_path / "audit.py"
    script.write_text(code)
    monkeypatch.setattr(run, "AUDIT", script)
    options = run.parse(["--only", "speed", "--only", "audit"])
    assert run.run_parts(options, tmp_path / "out", {"run": "r1", "mode": "quick"}) == ["speed"]
    told = capsys.readouterr().out
    assert "speed, {'task': 'bad'}: KeyError" in told and said in told
    assert store.read("speed.csv", tmp_path / "out").to_dict("records") == [
        {"task": "good", "value": 1.5, "run": "r1"}
    ]
    assert store.read("runs.csv", tmp_path / "out")["run"].tolist() == ["r1"]


def test_options():
    assert run.parse([]).only == [*store.PARTS, "audit"]
    assert run.parse(["--full"]).mode == "full"
    with pytest.raises(SystemExit):
        run.parse(["--only", "nothing"])


def test_the_readme_keeps_what_is_around_the_numbers(tmp_path):
    page = tmp_path / "README.md"
    begin, end = run.page.README
    page.write_text(f"before\n{begin}\nold\n{end}\nafter\n")
    run.page.put_into_readme(page, store.COMMITTED)
    text = page.read_text()
    assert (
        text.startswith(f"before\n{begin}\n")
        and text.endswith(f"{end}\nafter\n")
        and "old" not in text.split(begin)[1].split("\n")
    )
