"""A rootogram of a Poisson regression

Counts that vary more than a Poisson law allows. Bars hang from the expected
frequencies, on the scale of square roots: where they do not reach the line, or
go below it, the model has too few or too many of that count. The test of the
dispersion says the same.
"""

import numpy as np
import pandas as pd

import dpstats

g = np.random.default_rng(1)
age = g.uniform(20, 60, 60_000)
mean = np.exp(-1 + 0.03 * age) * g.gamma(2, 1 / 2, len(age))
data = pd.DataFrame({"age": age, "visits": g.poisson(mean)})

fit = dpstats.poisson(
    "visits ~ age",
    data,
    eps=1,
    bounds={"age": (20, 60), "visits": (0, 50)},
    seed=1,
)
found = fit.diagnose(data, eps=1, seed=2)
print(found)

found.plot()
