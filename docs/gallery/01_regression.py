"""A regression, and its line among the data

Private least squares of the price of diamonds on their weight, on the
logarithmic scale of both. The line and its band come from the release alone;
the points are a public sample, which a private study would not show.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import dpstats

diamonds = dpstats.datasets.load_diamonds()
fit = dpstats.ols("np.log(price) ~ np.log(carat)", diamonds, eps=1, seed=1)
print(fit.summary())

carats = np.geomspace(0.25, 2.5, 50)
line = fit.get_prediction(pd.DataFrame({"carat": carats})).summary_frame()

shown = diamonds.sample(1_500, random_state=1)
figure, ax = plt.subplots(figsize=(6.4, 4.2))
ax.scatter(
    shown["carat"],
    shown["price"],
    s=6,
    alpha=0.3,
    linewidths=0,
    color="#555555",
)
ax.plot(carats, np.exp(line["mean"]), color="#D55E00")
ax.fill_between(
    carats,
    np.exp(line["obs_ci_lower"]),
    np.exp(line["obs_ci_upper"]),
    alpha=0.15,
    color="#D55E00",
)
ax.set(
    xscale="log",
    yscale="log",
    xlabel="carat",
    ylabel="price",
    title="Released line, interval of one price",
)
ax.set_xticks([0.3, 0.5, 1, 2], ["0.3", "0.5", "1", "2"])
ax.minorticks_off()
