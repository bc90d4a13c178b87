"""The figures of the page. Colours are those of Okabe and Ito, and markers differ as well."""

import numpy as np
from scipy import stats

from suite import problems, validity
from suite.methods import METHODS, OURS, PEER, PLAIN, PUBLISHED

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8A8A00")
MARKERS = "osD^vP*X"
KINDS = {OURS: ("#0072B2", "o"), PUBLISHED: ("#E69F00", "s"), PEER: ("#D55E00", "^")}
STYLE = {
    "font.size": 9, "axes.titlesize": 9, "axes.labelsize": 9, "xtick.labelsize": 8, "ytick.labelsize": 8,
    "legend.fontsize": 8, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6, "axes.axisbelow": True, "figure.dpi": 110,
}  # fmt: skip


def _save(figure, path):
    figure.savefig(path, dpi=110, metadata={"Software": None})
    import matplotlib.pyplot as plt

    plt.close(figure)


def _grid(count, columns, width, height):
    import matplotlib.pyplot as plt

    rows = -(-count // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(width * columns, height * rows), layout="constrained", squeeze=False
    )
    for axis in axes.flat[count:]:
        axis.set_visible(False)
    return figure, axes


def _sets(table):
    table = table[table["columns"] == problems.ALL]
    return [(data, part) for data, part in table.groupby("data", sort=False)]


def _least_squares(part):
    return float(part.loc[part["method"] == "OLS", "median"].iloc[0])


def accuracy(table, path, eps="ln 3"):
    """Medians and quartiles of every method, a panel for each data set."""
    sets = _sets(table)
    figure, axes = _grid(len(sets), 4, 2.7, 2.7)
    names = [n for n, m in METHODS.items() if problems.ALL in m.columns and m.kind != PLAIN]
    for axis, (data, part) in zip(axes.flat, sets, strict=False):
        plain = _least_squares(part)
        part = part[part["eps"] == eps].set_index("method")
        right = max(plain, part["median"].max())
        axis.axvline(plain, color="black", linewidth=1)
        for place, name in enumerate(names):
            row, (colour, marker) = part.loc[name], KINDS[METHODS[name].kind]
            if not np.isfinite(row["median"]):
                axis.text(0.02 * right, place, "no fit", color=colour, va="center", fontsize=7)
            elif row["median"] < 0:
                axis.plot(
                    0.02 * right, place, marker="<", color=colour, markersize=5, markerfacecolor="white"
                )
                axis.text(0.06 * right, place, "below 0", color=colour, va="center", fontsize=7)
            else:
                axis.plot([max(row["q25"], 0), row["q75"]], [place, place], color=colour, linewidth=2)
                axis.plot(row["median"], place, marker=marker, color=colour, markersize=5)
        axis.set(xlim=(0, 1.08 * right), ylim=(len(names) - 0.5, -0.5), title=f"{data} (OLS {plain:.3f})")
        first = axis in axes[:, 0]
        axis.set_yticks(range(len(names)), names if first else [""] * len(names))
    figure.supxlabel(
        f"in-sample R-squared, eps = {eps}: median and quartiles; line: least squares without privacy",
        fontsize=9,
    )
    _save(figure, path)


def budgets(table, path):
    """What privacy costs, against eps; not where least squares is no reference."""
    sets = [(data, part) for data, part in _sets(table) if data != "outliers"]
    figure, axes = _grid(len(sets), 4, 2.6, 2.1)
    names = [n for n, m in METHODS.items() if m.kind == OURS and problems.ALL in m.columns]
    budget = {"0.5": 0.5, "1": 1.0, "ln 3": 1.0986, "3": 3.0}
    floor = 1e-4
    for axis, (data, part) in zip(axes.flat, sets, strict=False):
        plain = _least_squares(part)
        for k, name in enumerate(names):
            rows = part[(part["method"] == name) & part["median"].notna()]
            x = [budget[e] for e in rows["eps"]]
            axis.plot(x, np.maximum(plain - rows["median"], floor), marker=MARKERS[k], color=COLOURS[k],
                      markersize=4,
                      linewidth=1.2, label=name)  # fmt: skip
        axis.set(xscale="log", yscale="log", ylim=(floor / 1.5, 2), title=data)
        axis.set_xticks([0.5, 1, 3], ["0.5", "1", "3"])
        axis.minorticks_off()
        axis.set_yticks([1e-4, 1e-3, 1e-2, 1e-1, 1], ["≤ 0.0001", "0.001", "0.01", "0.1", "1"])
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(names))
    figure.supxlabel("eps", fontsize=9)
    figure.supylabel("R-squared lost against least squares", fontsize=9)
    _save(figure, path)


def coverage(table, path):
    """Coverage by coefficient and together, and relative widths."""
    import matplotlib.pyplot as plt

    pooled = table[table["coefficient"] == "all"].reset_index(drop=True)
    labels = [f"{r['estimator']}: {r['design']}, {r['rows']:,}" for r in pooled.to_dict("records")]
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(9, 0.19 * len(labels) + 1), layout="constrained", sharey=True, width_ratios=(3, 2)
    )
    order, least = {name: k for k, name in enumerate(validity.CASES)}, 0.8
    left.axvline(0.95, color="black", linewidth=1)
    right.axvline(1, color="black", linewidth=1)
    for place, row in enumerate(pooled.to_dict("records")):
        colour = COLOURS[order[row["estimator"]] % 7]
        likely = stats.binom.ppf([0.025, 0.975], row["data_sets"], 0.95) / row["data_sets"]
        left.plot(likely, [place, place], color="#cccccc", linewidth=7, solid_capstyle="butt", zorder=0)
        same = (table[["estimator", "design", "rows"]] == [row["estimator"], row["design"], row["rows"]]).all(
            axis=1
        )
        each = table.loc[same & (table["coefficient"] != "all"), "coverage"]
        left.plot(each, np.full(len(each), place), "|", color=colour, markersize=7)
        if row["coverage"] < least:
            left.plot(least + 0.004, place, marker="<", color=colour, markersize=5)
            left.text(
                least + 0.009, place, f"{100 * row['coverage']:.0f} %", color=colour, va="center", fontsize=7
            )
        left.plot(
            row["coverage"],
            place,
            marker="o" if row["about"] == "population" else "D",
            color=colour,
            markersize=4,
        )
        right.plot([row["width_q25"], row["width_q75"]], [place, place], color=colour, linewidth=1.5)
        right.plot(row["width"], place, marker="o", color=colour, markersize=4)
    left.set_yticks(range(len(labels)), labels)
    left.set(xlim=(least, 1.005), ylim=(len(labels) - 0.5, -0.5))
    left.set_xlabel("coverage of 95 % intervals: ticks, coefficients; dots, all of them\n"
                    "(diamonds: of the noise alone); grey: where 95 % of ticks belong")  # fmt: skip
    right.set(xscale="log")
    right.xaxis.set_major_formatter("{x:g}")
    right.set_xlabel("width over that of the textbook\ninterval without privacy")
    _save(figure, path)


def speed(times, memory, path):
    """Seconds against rows and columns, and added memory."""
    figure, axes = _grid(4, 2, 4.6, 3.4)
    titles = {"rows": "10 columns", "columns": "100,000 rows", "one covariate": "one covariate"}
    names = [n for n in dict.fromkeys(times["method"])]
    look = {}
    for k, name in enumerate(n for n in names if n not in ("X.T @ X", "statsmodels ols")):
        look[name] = {"color": COLOURS[k % 7], "marker": MARKERS[k % 8], "linestyle": "-" if k < 7 else "--"}
    look |= {
        "X.T @ X": {"color": "#888888", "linestyle": ":"},
        "statsmodels ols": {"color": "black", "linestyle": "-.", "marker": "x"},
    }
    for axis, (table, title) in zip(axes.flat, titles.items(), strict=False):
        along = "columns" if table == "columns" else "rows"
        for name, part in times[(times["table"] == table) & times["least"].notna()].groupby(
            "method", sort=False
        ):
            axis.plot(part[along], part["least"], markersize=4, linewidth=1.2, label=name, **look[name])
        axis.set(xscale="log", yscale="log", title=title, xlabel=along, ylabel="seconds, least of the rounds")
        if along == "columns":
            ticks = sorted(set(times.loc[times["table"] == table, along]))
            axis.set_xticks(ticks, ticks)
            axis.minorticks_off()
    handles = {
        label: h for axis in axes.flat[:3] for h, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=5)
    _memory(axes.flat[3], memory)
    _save(figure, path)


def _memory(axis, memory):
    if memory.empty:
        axis.set_visible(False)
        return
    rows = memory["rows"].max()
    part = memory[(memory["rows"] == rows) & memory["added_mib"].notna()]
    axis.barh(range(len(part)), part["added_mib"], color="#0072B2", height=0.6)
    axis.axvline(part["data_mib"].iloc[0], color="black", linewidth=1)
    axis.set_yticks(range(len(part)), part["method"])
    axis.set(
        ylim=(len(part) - 0.4, -0.6),
        title=f"memory added at the peak, {rows:,} rows",
        xlabel="MiB; line: the data",
    )
