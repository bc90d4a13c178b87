"""What a budget will buy

`plan` runs the whole estimator on made-up tables before any private row is
read. Here: the chance to see an effect of a declared size, by the budget and
the number of rows. Nothing is charged.
"""

import dpstats

columns = {
    "price": ("gamma", {"mean": 3900, "sd": 4000, "low": 300, "high": 19_000}),
    "carat": ("gamma", {"mean": 0.8, "sd": 0.47, "low": 0.2, "high": 5}),
    "table": ("normal", 57.5, 2.2),
}
plan = dpstats.plan(
    "price ~ carat + table",
    columns,
    n=(2_500, 5_000, 10_000),
    eps=(0.25, 0.5, 1, 2),
    correlation={
        ("price", "carat"): 0.92,
        ("price", "table"): 0.13,
        ("carat", "table"): 0.18,
    },
    effects={"table": -75},
    runs=20,
)
print(plan)

ax = plan.plot(y="power", x="eps", terms="table")
ax.set_title("Chance to see that a wider table lowers the price")
