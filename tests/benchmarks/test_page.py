"""The committed page and tables say the same; the page is written from the tables."""

from pathlib import Path

import pandas as pd
import pytest
from suite import accuracy, page, store

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def text():
    """Of the committed tables."""
    return page.text(store.COMMITTED)


@pytest.mark.slow
def test_the_page_is_what_the_tables_give(text):
    advice = "python benchmarks/run.py --page"
    assert (ROOT / "docs" / "benchmarks.md").read_text() == text, advice


def test_the_page_has_its_figures():
    text = (ROOT / "docs" / "benchmarks.md").read_text()
    for name in ("accuracy", "budgets", "coverage", "speed"):
        assert f"](figures/{name}.png)" in text
        assert (ROOT / "docs" / "figures" / f"{name}.png").stat().st_size > 10_000


@pytest.mark.slow
def test_figures_can_be_drawn(tmp_path):
    page.draw(store.COMMITTED, tmp_path)
    assert {path.stem for path in tmp_path.iterdir()} == {"accuracy", "budgets", "coverage", "speed"}


@pytest.mark.slow
def test_a_changed_number_changes_the_page(text, tmp_path):
    for path in store.COMMITTED.glob("*.csv"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert page.text(tmp_path) == text
    table = store.read("accuracy.csv")
    ours = (table["method"] == "ols") & (table["eps"] == "ln 3")
    store.write(table.assign(median=table["median"].where(~ours, 0.123)), "accuracy.csv", tmp_path)
    assert page.text(tmp_path) != text


def test_every_row_names_a_run_of_which_the_machine_is_known():
    runs = store.read("runs.csv").set_index("run")
    for part in store.PARTS:
        assert set(store.read(f"{part}.csv")["run"]) <= set(runs.index)
    assert (
        runs[["processor", "cores", "memory_gib", "python", "numpy", "opendp", "code"]].notna().all(axis=None)
    )


def test_medians_are_those_of_the_single_runs():
    raw = store.read("accuracy_runs.csv.gz")
    again = raw.groupby(accuracy.KEY)["r2"].median()
    stored = store.read("accuracy.csv").set_index(accuracy.KEY)["median"].reindex(again.index)
    # both are rounded to five digits, and a median may be the mean of a positive and a negative score
    pd.testing.assert_series_equal(again, stored, check_names=False, rtol=1e-4, atol=1e-5)


def test_a_wrong_number_of_covered_intervals_would_be_seen():
    table = store.read("validity.csv")
    each = (
        table[table["coefficient"] != "all"]
        .groupby(["estimator", "design", "rows"])[["covered", "intervals"]]
        .sum()
    )
    pooled = table[table["coefficient"] == "all"].set_index(["estimator", "design", "rows"])[
        ["covered", "intervals"]
    ]
    pd.testing.assert_frame_equal(each.sort_index(), pooled.sort_index(), check_dtype=False)
