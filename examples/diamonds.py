"""The main job: a private regression of the price of 53,940 diamonds."""

import dpstats

diamonds = dpstats.datasets.load_diamonds()
fit = dpstats.ols("price ~ carat + clarity", diamonds, eps=1)
print(fit.summary())
