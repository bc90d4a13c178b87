"""One regression for each place, and a map

Sixteen made-up towns, each with its own slope of a child's income rank on the
parents'. The groups are disjoint, so each has the whole budget. Left the
released slopes with their intervals, right the same slopes on the map.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import dpstats

g = np.random.default_rng(1)
side, rows = 4, 800
town = np.repeat([f"town {k:02d}" for k in range(side**2)], rows)
slope = np.repeat(
    np.linspace(0.15, 0.45, side**2)[g.permutation(side**2)], rows
)
parents = g.uniform(0, 100, len(town))
child = 50 + slope * (parents - 50) + g.normal(0, 15, len(town))
data = pd.DataFrame(
    {"town": pd.Categorical(town), "parents": parents, "child": child}
)

fits = dpstats.deepest_regression(
    "child ~ parents",
    data,
    eps=2,
    by="town",
    bounds={"parents": (0, 100), "child": (-50, 150)},
    seed=1,
)
slopes = fits.params["parents"]
print(slopes.round(3).to_string())

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2))
fits.plot("parents", ax=left)
image = right.imshow(slopes.to_numpy().reshape(side, side), cmap="viridis")
right.set(xticks=[], yticks=[], title="Released slopes on the map")
right.grid(False)
figure.colorbar(image, ax=right, shrink=0.8)
