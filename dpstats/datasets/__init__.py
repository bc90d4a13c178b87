"""Small public data for examples and vignettes, and fits of them that were released."""

from importlib import resources
from typing import Any

import pandas as pd

from dpstats._validation import one_of

__all__ = ["load_diamonds", "load_fit"]

_DIAMOND_GRADES = {
    "cut": ["Fair", "Good", "Very Good", "Premium", "Ideal"],
    "color": ["D", "E", "F", "G", "H", "I", "J"],
    "clarity": ["I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"],
}


def load_diamonds() -> pd.DataFrame:
    """Return prices and attributes of 53,940 round-cut diamonds, ggplot2's ``diamonds``.

    Returns
    -------
    pandas.DataFrame, shape (53940, 10)
        ``price`` in US dollars; ``carat``, the weight (1 carat is 0.2 g); ``cut``, ``color`` and ``clarity``,
        ordered categories (cut and clarity from worst to best, color from D, the best, to J); length ``x``,
        width ``y`` and depth ``z`` in mm; ``depth`` in percent, ``z`` over the mean of ``x`` and ``y``; and
        ``table``, the width of the top in percent of the widest point.

    Notes
    -----
    From the R package ggplot2, MIT licence; see README.md beside the data.

    Examples
    --------
    >>> diamonds = load_diamonds()
    >>> diamonds.shape
    (53940, 10)
    >>> diamonds["cut"].cat.categories.tolist()
    ['Fair', 'Good', 'Very Good', 'Premium', 'Ideal']
    """
    dtypes = {name: pd.CategoricalDtype(grades, ordered=True) for name, grades in _DIAMOND_GRADES.items()}
    with resources.files(__name__).joinpath("diamonds.csv.gz").open("rb") as file:
        return pd.read_csv(file, compression="gzip", dtype=dtypes)


def load_fit(name: str = "ols") -> Any:
    """Return a released fit of the diamonds, as it was saved: to try what a result can do.

    Parameters
    ----------
    name : {"ols", "logit", "groups"}
        ``ols("price ~ carat + cut", diamonds, eps=1)``; ``logit("ideal ~ carat", diamonds, eps=1)`` with
        ``ideal`` for the best cut; ``ols("price ~ carat", diamonds, eps=1, by="cut")``. One release each; the
        next would differ.

    Returns
    -------
    Results, GLMResults or GroupedResults

    Raises
    ------
    ParameterError
        If there is no fit of that name.

    Examples
    --------
    >>> load_fit().params.round()
    Intercept          -3839.0
    cut[T.Good]          971.0
    cut[T.Very Good]    1441.0
    cut[T.Premium]      1356.0
    cut[T.Ideal]        1725.0
    carat               7917.0
    Name: coef, dtype: float64
    """
    from dpstats.estimation.saved import load

    name = one_of("name", name, ("ols", "logit", "groups"))
    with resources.as_file(resources.files(__name__).joinpath("fits", f"{name}.json")) as path:
        return load(path)
