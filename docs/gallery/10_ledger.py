"""What a ledger has taken

A ledger keeps the total of a data set and refuses what would exceed it. The
report can be published: it holds nothing that depends on data. The plot is of
the shares that the releases asked for.
"""

import matplotlib.pyplot as plt

import dpstats

diamonds = dpstats.datasets.load_diamonds()
ledger = dpstats.Ledger(":memory:", eps=1, delta=1e-5, composition="gdp")
asked = dpstats.split(
    1.0,
    {"first look": 1, "regression": 2, "residuals": 1},
    rule="gdp",
    delta=1e-5,
)

eps, delta = asked["first look"]
dpstats.describe(
    diamonds, ["price", "cut"], eps=eps, delta=delta, ledger=ledger, seed=1
)
eps, delta = asked["regression"]
fit = dpstats.ols(
    "price ~ carat + clarity",
    diamonds,
    eps=eps,
    delta=delta,
    ledger=ledger,
    seed=2,
)
eps, delta = asked["residuals"]
fit.diagnose(diamonds, eps=eps, delta=delta, ledger=ledger, seed=3)
print(ledger.report())

figure, ax = plt.subplots(figsize=(6.4, 2.6))
ax.barh(list(asked), [eps for eps, _ in asked.values()], height=0.6)
ax.invert_yaxis()
ax.set(xlabel="eps", title="What each release asked for, of a total of eps = 1")
ax.grid(False, axis="y")
