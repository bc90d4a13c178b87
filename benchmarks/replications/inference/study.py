"""Published private regressions with intervals beside ``dpstats.ols``, at the same privacy.

    STUDY=benchmarks/replications/inference/study.py
    OMP_NUM_THREADS=1 python $STUDY                                       # with the methods of methods.py
    OMP_NUM_THREADS=1 python $STUDY --binagg DIR --bootstrap DIR          # and with the authors' code
    OMP_NUM_THREADS=1 python $STUDY --only dpstats.ols --merge            # ours again, the other rows kept
    python $STUDY --summary                                          # README's tables and the figure again

DIR is a folder with the authors' code (``published.py``). Data set i of a cell is the same for all methods.
Budgets are converted exactly: a cell's ``mu`` is the largest for which mu-GDP gives (eps, 1e-6), or eps is
the least that its mu gives; ``dpstats.ols`` has (eps, 1e-6), the others mu-GDP.

Columns of results.csv, a row for each coefficient and one, ``all``, that pools them: `refused` data sets
raised an error, and of the rest `undetermined` intervals are not finite; of those `given`, `coverage`,
`below` and `above` are the shares that hold the truth, lie below it and above it; `coverage_ols` is the share
that holds the least-squares fit of the same rows. `length` is the mean width, `width` that over the mean of
the HC1 intervals without privacy, and `width_median` the same of medians. `rmse` and `error` are the root
mean square and the median absolute error over those of least squares, `seconds` the median processor time.
In ``all``, `coverage_least` is the coverage of the worst coefficient, and widths and errors are medians over
the coefficients.
"""

import argparse
import math
import os
import sys
import time
import warnings
from collections import Counter, defaultdict
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from replications.inference import methods, published  # noqa: E402
from replications.inference.designs import CELLS, DESIGNS, response_range  # noqa: E402

import dpstats  # noqa: E402
from dpstats.errors import DpstatsError  # noqa: E402
from dpstats.privacy.conversions import gdp_eps, gdp_mu  # noqa: E402

RESULTS, FIGURE = HERE / "results.csv", HERE / "coverage.png"
KEY = ["design", "n", "eps", "mu", "method"]
DELTA, Z95 = 1e-6, methods.Z95
OURS, EXACT, TOLD = "dpstats.ols", "least squares, not private", "DP-GD, told the sampling error"
SHOWN = (
    (OURS, "o", "C0"), ("BinAgg", "s", "C1"), ("DP-GD", "v", "C2"), (TOLD, "^", "C2"),
    ("parametric bootstrap", "D", "C3"),
)  # fmt: skip
AUTHORS = (
    "BinAgg", "BinAgg, package", "BinAgg, package at its own account",
    "parametric bootstrap", "parametric bootstrap, script", "parametric bootstrap, script at its own account",
)  # fmt: skip


def main(arguments=None):
    """Run the cells, or print the tables of what is there."""
    options = parse(arguments)
    if not options.summary:
        run(options)
    table = pd.read_csv(options.output)
    print(summary(table, [name for name, _, _ in SHOWN]))
    if options.output == RESULTS:
        publish(table)


def parse(arguments):
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=200, help="data sets of a cell")
    parser.add_argument("--binagg", type=Path, help="folder of BinAgg's repository")
    parser.add_argument("--bootstrap", type=Path, help="folder of PB-DP-CIs' repository")
    parser.add_argument("--only", nargs="+", help="methods whose name begins so")
    parser.add_argument("--designs", nargs="+", choices=DESIGNS, default=list(DESIGNS), metavar="DESIGN")
    parser.add_argument("--merge", action="store_true", help="keep the rows of what is not run")
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--summary", action="store_true")
    return parser.parse_args(arguments)


def run(options):
    """Fill the table, cell by cell."""
    os.environ["DPSTATS_DEBUG"] = "1"
    found, begin = [], time.process_time()
    for cell in CELLS:
        if cell.design not in options.designs:
            continue
        eps, mu = budget(cell)
        key = {"design": cell.design, "n": cell.n, "eps": digits(eps), "mu": digits(mu)}
        for method, rows in study(cell, eps, mu, options).items():
            found += [key | {"method": method} | row for row in rows]
        print(f"{time.process_time() - begin:6.0f} s  {cell}", flush=True)
    table = pd.DataFrame(found)
    if options.merge and options.output.exists():
        old = pd.read_csv(options.output)
        fresh = pd.MultiIndex.from_frame(table[KEY])
        table = pd.concat([old[~pd.MultiIndex.from_frame(old[KEY]).isin(fresh)], table])
    place = {(c.design, c.n, digits(budget(c)[0])): k for k, c in enumerate(CELLS)}
    order = [place[key] for key in zip(table["design"], table["n"], table["eps"], strict=True)]
    names = {name: k for k, name in enumerate(NAMES)}
    table = table.assign(cell=order, rank=table["method"].map(names))
    table = table.sort_values(["cell", "rank"], kind="stable").drop(columns=["cell", "rank"])
    table.to_csv(options.output, index=False, float_format="%.5g", lineterminator="\n")


def digits(x):
    """`x` as the table has it."""
    return float(f"{x:.5g}")


def budget(cell):
    """``eps`` at delta = 1e-6 and ``mu``."""
    return (cell.eps, gdp_mu(cell.eps, DELTA)) if cell.mu is None else (gdp_eps(cell.mu, DELTA), cell.mu)


NAMES = (
    EXACT, OURS, "BinAgg", "BinAgg, package", "BinAgg, package at its own account", "DP-GD", TOLD,
    "parametric bootstrap", "parametric bootstrap, script", "parametric bootstrap, script at its own account",
)  # fmt: skip


def chosen(cell, eps, mu, options):
    """The methods of a cell, functions of rows, generator, formula and frame."""
    design, d = DESIGNS[cell.design], len(DESIGNS[cell.design].truth)
    burn, less = 5 if cell.design.startswith("isotropic") else 30, mu / methods.binagg_costs(d)
    found = {
        OURS: lambda rows, rng, data: ours(data, eps, rng),
        "BinAgg": lambda rows, rng, data: methods.binagg(rows, less, rng),
        "DP-GD": lambda rows, rng, data: methods.dp_gd(rows, mu, rng, burn),
        "parametric bootstrap": lambda rows, rng, data: methods.ssp_bootstrap(rows, mu, rng),
    }
    if options.binagg and np.count_nonzero(design.back) == d:
        package = published.package(options.binagg)
        found["BinAgg, package"] = lambda rows, rng, data: package(rows, less, rng)
        if cell.design.startswith("uniform"):
            found["BinAgg, package at its own account"] = lambda rows, rng, data: package(rows, mu, rng)
    if options.bootstrap and cell.design.startswith("bounded"):
        script = published.bootstrap_script(options.bootstrap)
        least = eps / published.SPENDS
        found["parametric bootstrap, script"] = lambda rows, rng, data: script(rows, least, rng)
        found["parametric bootstrap, script at its own account"] = lambda rows, rng, data: script(
            rows, eps, rng
        )
    if options.only:
        found = {name: f for name, f in found.items() if any(name.startswith(o) for o in options.only)}
    return found


def ours(data, eps, rng):
    """``dpstats.ols`` with nothing but a formula and a frame."""
    formula, frame = data
    fit = dpstats.ols(formula, frame, eps=eps, delta=DELTA, seed=int(rng.integers(2**31)))
    return np.column_stack([fit.params, fit.conf_int()])


def study(cell, eps, mu, options):
    """The rows of every method of a cell."""
    design, which = DESIGNS[cell.design], CELLS.index(cell)
    method_of = chosen(cell, eps, mu, options)
    fits, seconds, refused = defaultdict(list), defaultdict(list), Counter()
    for i in range(options.runs):
        frame, Z = design.draw(cell.n, np.random.default_rng([which, i]))
        rows = methods.Rows(
            Z, frame["y"].to_numpy(), design.low, response_range(cell.design), design.mean, design.scale,
            design.noise, design.back,
        )  # fmt: skip
        beta, error = least_squares(rows)
        fits[EXACT].append(np.column_stack([beta, beta - Z95 * error, beta + Z95 * error]))
        for name, method in method_of.items():
            rng, begin = np.random.default_rng([which, i, NAMES.index(name)]), time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    fits[name].append(method(rows, rng, (design.formula, frame)))
                except (DpstatsError, np.linalg.LinAlgError):
                    refused[name] += 1
                    fits[name].append(np.full_like(fits[EXACT][-1], np.nan))
            seconds[name].append(time.process_time() - begin)
        if "DP-GD" in method_of:
            middle = fits["DP-GD"][-1][:, 0]
            half = np.hypot(fits["DP-GD"][-1][:, 2] - middle, Z95 * error)
            fits[TOLD].append(np.column_stack([middle, middle - half, middle + half]))
            seconds[TOLD].append(seconds["DP-GD"][-1])
    exact = np.array(fits[EXACT])
    return {
        name: table(np.array(found), exact, design.truth, refused[name], np.median(seconds[name] or math.nan))
        for name, found in fits.items()
    }


def least_squares(rows):
    """Coefficients and HC1 standard errors, without privacy."""
    n, d = rows.Z.shape
    inverse = np.linalg.inv(rows.Z.T @ rows.Z)
    beta = inverse @ (rows.Z.T @ rows.y)
    scores = rows.Z * (rows.y - rows.Z @ beta)[:, None]
    cover = rows.back @ inverse @ (scores.T @ scores) @ inverse @ rows.back.T * n / (n - d)
    return rows.back @ beta, np.sqrt(np.diag(cover))


def table(fits, exact, truth, refused, seconds):
    """Rows for the coefficients and one for all of them.

    Parameters
    ----------
    fits, exact : (data sets, d, 3) arrays
        Estimate and both ends, of the method and of least squares; NaN where there is none.
    """
    given = np.isfinite(fits).all(axis=2)
    width, reference = fits[..., 2] - fits[..., 1], exact[..., 2] - exact[..., 1]
    low, high, best = fits[..., 1], fits[..., 2], exact[..., 0]
    estimated = np.isfinite(fits[..., 0])
    error, best_error = fits[..., 0] - truth, best - truth
    rows = []
    for j in range(len(truth)):
        g, e = given[:, j], estimated[:, j]
        rows.append({
            "coefficient": f"b{j}", "runs": len(fits), "refused": refused,
            "undetermined": int(np.sum(~g)) - refused, "given": int(np.sum(g)),
            "coverage": mean((low <= truth)[g, j] & (high >= truth)[g, j]),
            "below": mean((high < truth)[g, j]), "above": mean((low > truth)[g, j]),
            "coverage_ols": mean((low <= best)[g, j] & (high >= best)[g, j]),
            "width": mean(width[g, j]) / np.mean(reference[:, j]),
            "length": mean(width[g, j]),
            "width_median": np.median(width[g, j]) / np.median(reference[:, j]) if g.any() else math.nan,
            "rmse": math.sqrt(mean(error[e, j] ** 2) / np.mean(best_error[:, j] ** 2)),
            "error": np.median(abs(error[e, j])) / np.median(abs(best_error[:, j])) if e.any() else math.nan,
            "seconds": seconds,
        })  # fmt: skip
    part = pd.DataFrame(rows)
    weight = part["given"] / max(part["given"].sum(), 1)
    pooled = {
        "coefficient": "all", "runs": len(fits), "refused": refused,
        "undetermined": part["undetermined"].sum(), "given": part["given"].sum(), "seconds": seconds,
        **{c: (part[c] * weight).sum(skipna=True) if weight.any() else math.nan
           for c in ("coverage", "below", "above", "coverage_ols")},
        "coverage_least": part["coverage"].min(),
        **{c: part[c].median() for c in ("width", "length", "width_median", "rmse", "error")},
    }  # fmt: skip
    return [*rows, pooled]


def mean(values):
    """Their mean; NaN if there are none."""
    return float(np.mean(values)) if len(values) else math.nan


def summary(table, names):
    """Coverage, width and rmse of all coefficients by some methods: a Markdown table, a row for each cell."""
    lines = ["| design | n | eps | mu | " + " | ".join(names) + " |", "|---" * (4 + len(names)) + "|"]
    pooled = table[(table["coefficient"] == "all") & table["method"].isin(names)]
    for (design, n, eps, mu), part in pooled.groupby(KEY[:-1], sort=False):
        rows, coefficients = part.set_index("method").to_dict("index"), len(DESIGNS[design].truth)
        cells = [design, f"{n:,}", f"{eps:.3g}", f"{mu:.3g}"]
        for name in names:
            row = rows.get(name)
            cells.append("" if row is None else f"{100 * row['coverage']:.1f}, {row['width_median']:.3g}, ")
            if row is not None:
                missing = 1 - row["given"] / row["runs"] / coefficients
                cells[-1] += f"{row['rmse']:.3g}" + f"; {100 * missing:.0f} % none" * (missing > 0)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def publish(table):
    """The tables of README.md and the figure."""
    text = (HERE / "README.md").read_text()
    for mark, names in (("methods", [name for name, _, _ in SHOWN]), ("authors", AUTHORS)):
        begin, end = f"<!-- {mark} -->\n", f"<!-- end of {mark} -->"
        before, rest = text.split(begin)
        text = before + begin + summary(table, names) + "\n" + end + rest.split(end)[1]
    (HERE / "README.md").write_text(text)
    figure(table)


def figure(table):
    """Coverage and width of every cell and method."""
    pooled = table[table["coefficient"] == "all"]
    cells = list(dict.fromkeys(zip(pooled["design"], pooled["n"], pooled["eps"], strict=True)))
    fig, axes = plt.subplots(2, 1, figsize=(11, 8), sharex=True, layout="constrained")
    for method, marker, color in SHOWN:
        part = pooled[pooled["method"] == method].set_index(["design", "n", "eps"]).reindex(cells)
        x = np.arange(len(cells)) + 0.12 * ([m for m, _, _ in SHOWN].index(method) - 2)
        axes[0].plot(x, 100 * part["coverage"], marker, color=color, label=method)
        axes[1].plot(x, part["width_median"], marker, color=color)
    axes[0].axhline(95, color="0.5", linewidth=1)
    axes[0].set(ylabel="coverage of the population's coefficients, %", ylim=(0, 102))
    axes[1].axhline(1, color="0.5", linewidth=1)
    axes[1].set(ylabel="width over that without privacy (medians)", yscale="log")
    labels = [f"{design}\nn = {n:,}, eps = {eps:.3g}" for design, n, eps in cells]
    axes[1].set_xticks(range(len(cells)), labels, rotation=60, ha="right", fontsize=8)
    for axis in axes:
        axis.grid(alpha=0.3)
    fig.legend(loc="outside upper center", ncols=5, fontsize=9)
    fig.savefig(FIGURE, dpi=110, metadata={"Software": None})
    plt.close(fig)


if __name__ == "__main__":
    main()
