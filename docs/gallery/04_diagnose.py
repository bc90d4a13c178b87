"""Residuals of a linear fit

A straight line in the prices of diamonds misses a bend, and the errors spread
with the prediction. `diagnose` is a release of its own, with a budget of its
own; the panel is that of R's `plot(lm)`, in bins.
"""

import dpstats

diamonds = dpstats.datasets.load_diamonds()
fit = dpstats.ols("price ~ carat + depth + cut", diamonds, eps=1, seed=1)
found = fit.diagnose(diamonds, eps=1, seed=2)
print(found)

found.plot()
