"""A first look at a table

`describe` releases one table of a data set for one budget, and its plot is a
panel: bars between private quartiles, shares of levels, correlations.
"""

import dpstats

diamonds = dpstats.datasets.load_diamonds()
look = dpstats.describe(
    diamonds,
    ["price", "carat", "depth", "cut"],
    eps=1,
    correlation=True,
    seed=1,
)
print(look)

look.plot()
