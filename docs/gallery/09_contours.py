"""Tukey depth: contours and the private median

The contours, the bag and the Tukey median are exact, and *not* private: they
show the data. The cross is the private Tukey median of the same rows, which
needs no bounds.
"""

import numpy as np
import pandas as pd

import dpstats
from dpstats import depth

g = np.random.default_rng(1)
heights = g.normal(170, 8, 1_000)
weights = 70 + 0.8 * (heights - 170) + g.gamma(2, 5, len(heights)) - 10
data = pd.DataFrame({"height": heights, "weight": weights})

fit = dpstats.tukey_median("height + weight ~ 1", data, eps=1, seed=1)
print(fit.summary())

ax = depth.plot_contours(data.to_numpy())
ax.plot(
    *fit.params,
    "x",
    color="#D55E00",
    markersize=11,
    markeredgewidth=2.5,
    zorder=5,
    label="private median",
)
ax.set(xlabel="height", ylabel="weight")
ax.legend(frameon=False)
