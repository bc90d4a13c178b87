"""Figure of simulation.csv: median absolute error against the number of rows; writes simulation.png."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd

HERE = Path(__file__).parent
STYLE = {
    "deepest_regression": ("C0", "-", "o"),
    "deepest_regression, no bounds": ("C5", "-", "."),
    "deepest_regression, smooth": ("C0", "--", "o"),
    "deepest regression, paper": ("C0", ":", "o"),
    "medsweep, sequential": ("C1", "-", "s"),
    "medsweep, joint": ("C1", "--", "s"),
    "medsweep, paper": ("C1", ":", "s"),
    "theil_sen": ("C2", "-", "^"),
    "noisy_stats": ("C3", "-", "v"),
    "gradient_descent": ("C4", "-", "D"),
    "OLS, not private": ("0.4", "-", ""),
    "deepest regression, not private": ("0.4", "--", ""),
    "medsweep, not private": ("0.4", ":", ""),
}


def main():
    frame = pd.read_csv(HERE / "simulation.csv")
    figure, axes = plt.subplots(2, 3, figsize=(12, 7), sharex=True, sharey=True, layout="constrained")
    for row, eps in zip(axes, (4.0, 12.0), strict=True):
        for axis, law in zip(row, ("normal", "Laplace", "t3"), strict=True):
            part = frame[(frame["law"] == law) & (frame["eps"].isna() | (frame["eps"] == eps))]
            for method, (color, line, marker) in STYLE.items():
                one = part[part["method"] == method]
                axis.plot(
                    one["n"],
                    one["mad"],
                    color=color,
                    linestyle=line,
                    marker=marker,
                    markersize=4,
                    label=method,
                )
            axis.set(yscale="log", ylim=(0.02, 30), title=f"{law} errors, eps = {eps:g}")
            axis.grid(alpha=0.3)
    for axis in axes[:, 0]:
        axis.set_ylabel("median absolute error of the prediction")
    for axis in axes[1]:
        axis.set_xlabel("rows")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=9)
    figure.savefig(HERE / "simulation.png", dpi=130, metadata={"Software": None})


if __name__ == "__main__":
    main()
