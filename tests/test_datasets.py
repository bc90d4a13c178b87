"""The bundled data: shape, declared dtypes, known totals."""

import subprocess
import sys

import pytest

from dpstats.datasets import load_diamonds, load_fit
from dpstats.errors import ParameterError


def test_diamonds_are_the_published_data():
    diamonds = load_diamonds()
    assert diamonds.shape == (53940, 10)
    assert list(diamonds) == ["carat", "cut", "color", "clarity", "depth", "table", "price", "x", "y", "z"]
    assert not diamonds.isna().any(axis=None)
    # Totals of ggplot2::diamonds.
    assert diamonds["price"].sum() == 212_135_217
    assert round(diamonds["carat"].sum(), 2) == 43_040.87
    assert diamonds["cut"].value_counts(sort=False).tolist() == [1610, 4906, 12082, 13791, 21551]
    clarity = [741, 9194, 13065, 12258, 8171, 5066, 3655, 1790]
    assert diamonds["clarity"].value_counts(sort=False).tolist() == clarity


def test_diamonds_factors_are_ordered():
    diamonds = load_diamonds()
    assert all(diamonds[name].cat.ordered for name in ("cut", "color", "clarity"))
    assert diamonds["color"].cat.categories.tolist() == list("DEFGHIJ")


def test_released_fits_are_read_as_they_were_written():
    fits = [load_fit(name) for name in ("ols", "logit", "groups")]
    assert [type(fit).__name__ for fit in fits] == ["Results", "GLMResults", "GroupedResults"]
    assert all(fit.guarantee.eps == 1 and not fit.guarantee.seeded for fit in fits)
    with pytest.raises(ParameterError, match="name must be one of 'ols', 'logit', 'groups', got 'lm'"):
        load_fit("lm")


@pytest.mark.slow
def test_diamonds_need_no_pyarrow():
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from dpstats.datasets import load_diamonds\n"
        "assert len(load_diamonds()) == 53940"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
