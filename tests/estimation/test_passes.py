"""Rows that come in another order at each pass, as those of a query or of a cluster may."""

import sys
from pathlib import Path

import numpy as np
import pytest

import dpstats
from dpstats._estimators import ESTIMATORS
from dpstats.data.batches import Batch, Source, describe_pandas_frame
from dpstats.data.pandas_column import PandasColumn

sys.path.insert(0, str(Path(__file__).parents[1]))
from estimators import data, run  # noqa: E402

DRAWN = ("deepest_regression", "theil_sen", "tukey_em")
"""Which rows these draw depends on the order, and each draws in one pass."""


class Restless(Source):
    in_memory = False

    def __init__(self, frame, seed):
        super().__init__(describe_pandas_frame(frame))
        self._frame, self._order = frame, np.random.default_rng(seed)

    def _batches(self, names, coded):
        frame = self._frame.iloc[self._order.permutation(len(self._frame))]
        for i in range(0, len(frame), 700):
            piece = frame.iloc[i : i + 700]
            yield Batch(len(piece), {name: PandasColumn(piece[name]) for name in names})


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name not in DRAWN])
def test_no_values_of_two_passes_are_put_together(name):
    """Bit for bit: sums are of integers, and the rest is sorted."""
    frame = data(ESTIMATORS[name].rows)
    one, other = (run(name, Restless(frame, order)) for order in (1, 2))
    assert one.to_dict() == other.to_dict()


def test_columns_of_a_correlation_are_of_the_same_rows():
    frame = data(5_000)
    frame["same"] = frame["x"]
    for seed in (1, 2):
        table = dpstats.describe(Restless(frame, seed), eps=20, seed=0, correlation=True)
        assert table.correlation.loc["x", "same"] > 0.98


@pytest.mark.parametrize("seed", [1, 2])
def test_terms_are_chosen_by_the_responses_of_their_own_rows(seed):
    """The response is one of five columns; put with those of other rows it is like none."""
    frame = data(5_000)
    frame["same"] = frame["x"]
    for i, column in enumerate(np.random.default_rng(1).standard_normal((4, 5_000))):
        frame[f"x{i}"] = column
    rows = Restless(frame, seed)
    chosen = dpstats.select_features("x ~ x0 + x1 + x2 + x3 + same", rows, k=1, eps=1, seed=seed)
    assert chosen.model == "x ~ same"
