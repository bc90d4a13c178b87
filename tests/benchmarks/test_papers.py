"""The seeds' papers: the tables of the page, the published test of TukeyEM, and the choice of columns."""

import math

import numpy as np
import pandas as pd
import pytest
from replications.papers import study, tasks


def test_page_has_the_tables():
    page = (study.HERE / "README.md").read_text(encoding="utf-8")
    assert study.filled(page) == page
    assert "amin.png" in page and (study.HERE / "amin.png").is_file()


def test_published_numbers_are_read_as_the_papers_count_them():
    """14 and 10 of 25 tasks have a positive R-squared with K-Tukey and L-Tukey, as the paper's text says."""
    table = study.published("Figure 4")
    counts = {m: sum(v > 0 for (_, name), v in table.items() if name == m) for m in ("K-Tukey", "L-Tukey")}
    assert counts == {"K-Tukey": 14, "L-Tukey": 10}
    assert len({task for task, _ in table}) == 25


def test_every_run_has_its_task():
    ours = {study.TASKS[t][0] for t in study.TASKS if t not in study.LEFT_OUT}
    assert set(pd.read_csv(study.HERE / "kendall.csv")["name"]) == ours
    assert set(pd.read_csv(study.HERE / "boosted.csv")["task"]) == set(study.TASKS)


def test_distance_of_the_paper_by_hand():
    """Volumes exp(-i): the ratio is exp(2 k + g + 2), less than exp(eps g / 2) for a long enough g."""
    eps, delta, volumes = 4.0, 1e-2, -np.arange(1.0, 21)  # t = 10, depths 1 to 20
    # g (eps / 2 - 1) >= 2 k + 2 + ln 100, and g <= 9 - k: k = 0 needs 6.6 of 9, k = 1 needs 8.6 of 8
    assert study.paper_distance(volumes, eps, delta) == 0
    assert study.paper_distance(volumes, 1.0, delta) == -1


def test_columns_with_few_values_are_left_out():
    frame = pd.DataFrame({"many": range(20), "few": [0, 1] * 10})
    assert list(tasks._many(frame)) == ["many"]


@pytest.mark.parametrize("task", [361076, 361080, 361082, 361096, 361099])
def test_tasks_whose_data_are_shipped(task, tmp_path):
    X, y = tasks.load(task, tmp_path)
    assert X.shape == study.TASKS[task][1:3] and np.isfinite(X).all() and np.isfinite(y).all()


def test_quartiles_count_failures():
    row = study.quartiles([1.0, math.nan, 3.0])
    assert row["failed"] == 1 and row["median"] == 2.0 and row["runs"] == 3
    assert math.isnan(study.quartiles([math.nan])["median"])
