"""Coefficients with their intervals

`plot()` draws the estimates of a fit with intervals that cover sampling and
privacy noise. The terms of a factor are chosen by the factor's name.
"""

import dpstats

diamonds = dpstats.datasets.load_diamonds()
fit = dpstats.ols("price ~ carat + clarity", diamonds, eps=1, seed=1)
print(fit.tidy().round(2).to_string(index=False))

ax = fit.plot(terms="clarity")
ax.set_title("Price over that of clarity I1, at the same weight")
