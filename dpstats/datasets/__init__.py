"""Small public data for examples and vignettes."""

from importlib import resources

import pandas as pd

__all__ = ["load_diamonds"]

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
