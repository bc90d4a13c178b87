"""Wage equations on the Current Population Survey: two published tests of private regression, with `ols`.

    python benchmarks/replications/cps.py prepare RAW DATA           # RAW: the two files that README.md names
    OMP_NUM_THREADS=1 python benchmarks/replications/cps.py run DATA             # tables, figures, page
    python benchmarks/replications/cps.py run DATA --releases 100 --output DIR   # quicker, the page stays
    python benchmarks/replications/cps.py page                                   # figures and page again

Releases have seeds 0, 1, ..., the default delta, and no bounds. Columns of the tables: `estimate`, `hc1` and
`classical`, the confidential fit (least squares) and its standard errors; `overlap`, `overlap_median` and
`overlap_low`, mean, median and 10 % quantile of the overlap of the private with the confidential 95 %
interval; `right`, share of the releases with the sign of the confidential estimate and its significance at
5 %; `sign`, with its sign; `holds`, whose interval holds the confidential estimate; `given`, with an interval
(one that is not given has overlap 0 and is not right); `ratio` and `ratio_high`, median and 90 % quantile of
the private standard error over `hc1`; `error`, the median distance of the estimates, in `hc1`; `limit` and
`limit_high`, median and 90 % quantile of the limit of residuals that the table's note gives.

``cps_limits.csv`` looks into the confidential data: for limits of the residual, in its standard deviations,
what noise of the averaged rounds (at eps = 1) and what bias they bring, as squares in shares of the sampling
variance; both are sums over an orthonormal basis of the columns. `chosen` is the share of the releases that
took about that limit.
"""

import argparse
import math
import re
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import patsy
import statsmodels.api as sm

import dpstats

HERE = Path(__file__).resolve().parent
PAGE = HERE / "README.md"
CUBIC = "log_wage ~ education + experience + I(experience**2) + I(experience**3)"
SAMPLES = {
    "women 2009": f"{CUBIC} + non_white",
    "men 2009": f"{CUBIC} + non_white",
    "women 2024": CUBIC,
    "men 2024": CUBIC,
    "both years": f"{CUBIC} + female + year_2024",
}
MODELS = {
    "education and sex": "log_wage ~ education + female",
    "with experience": "log_wage ~ education + experience + I(experience**2) + female",
}
EPS = 0.5, 1.0, 5.0
PEER_EPS = 0.5, 1.0, 10.0
OVERLAP, RIGHT, EPS_OF_BAR = 0.8, 0.95, 1.0
Z = 1.959964
ROWS_2009, ROWS_2024 = 50_742, 54_875
CPI_1995, CPI_2008 = 152.4, 215.303
"""Consumer prices for all urban consumers, annual averages: hourly wages of 2 to 150 dollars are of 1995."""
SIZES = (2.0, 2.8, 4.0, 5.7, 8.0, 11.3, 16.0, 22.6)
"""Limits of the residual that ``cps_limits.csv`` looks at, in standard deviations."""


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task", choices=["prepare", "run", "page"])
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument("--releases", type=int, default=200)
    parser.add_argument("--output", type=Path, default=HERE)
    options = parser.parse_args(arguments)
    if options.task == "prepare":
        prepare(*options.folders)
    if options.task == "run":
        run(*options.folders, options.output, options.releases)
    if options.task != "prepare" and options.output == HERE:
        figures()
        PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def prepare(raw, data):
    """The two published files as ``cps_2009.parquet`` and ``cps_2024.parquet`` with the same columns."""
    data.mkdir(parents=True, exist_ok=True)
    for name, table in {
        "cps_2009": wages_2009(pd.read_csv(raw / "cps09mar.csv", encoding="utf-8-sig"), ROWS_2009),
        "cps_2024": wages_2024(pd.read_csv(raw / "cps_asec_2024_wages.csv"), ROWS_2024),
    }.items():
        table.to_parquet(data / f"{name}.parquet", index=False)
        print(f"{name}: {len(table):,} rows, {int(table['female'].sum()):,} women")


def wages_2009(table, rows):
    """The choice of rows and the variables of Barrientos et al., on the supplement of 2009."""
    if len(table) != rows:
        raise SystemExit(f"cps09mar.csv has {len(table):,} rows, not {rows:,}")
    hourly = table["earnings"] / (table["hours"] * table["week"]) * (CPI_1995 / CPI_2008)
    kept = table[table["age"].between(16, 66) & (hourly > 2) & (hourly < 150)]
    return pd.DataFrame({
        "log_wage": np.log(kept["earnings"]),
        "education": kept["education"].astype(float),
        "experience": np.maximum(kept["age"] - kept["education"] - 6, 0).astype(float),
        # declared booleans: their two values are public
        "non_white": (kept["race"] != 1).astype("boolean"),
        "female": (kept["female"] == 1).astype("boolean"),
    })  # fmt: skip


def wages_2024(table, rows):
    """The data of dp-statsmodels as they are: no race, no hours, annual wages from 2 dollars on."""
    if len(table) != rows:
        raise SystemExit(f"cps_asec_2024_wages.csv has {len(table):,} rows, not {rows:,}")
    return pd.DataFrame({
        "log_wage": table["log_wage"],
        "education": table["educ_years"].astype(float),
        "experience": table["experience"].astype(float),
        "female": (table["female"] == 1).astype("boolean"),
    })  # fmt: skip


def samples(data):
    """The rows of every sample."""
    old, new = (pd.read_parquet(data / f"cps_{year}.parquet") for year in (2009, 2024))
    both = pd.concat([old.assign(year_2024=False), new.assign(year_2024=True)], ignore_index=True)
    return {
        "women 2009": old[old["female"]],
        "men 2009": old[~old["female"]],
        "women 2024": new[new["female"]],
        "men 2024": new[~new["female"]],
        "both years": both.astype({"year_2024": "boolean"}),
    }


def run(data, output, releases):
    """Both tables, and that of the limits."""
    start, feasibility, peer, limits = time.perf_counter(), [], [], []
    rows = samples(data)
    for sample, table in rows.items():
        for eps in EPS:
            cell, chosen = study(sample, SAMPLES[sample], table, eps, releases)
            feasibility.append(cell)
            print(f"{sample}, eps = {eps:g}: {time.perf_counter() - start:.0f} s", flush=True)
            if eps == EPS_OF_BAR:
                limits.append(looked_into(sample, SAMPLES[sample], table, eps, chosen))
    workers = pd.concat([rows["women 2024"], rows["men 2024"]])
    for model, formula in MODELS.items():
        for eps in PEER_EPS:
            peer.append(study(model, formula, workers, eps, releases)[0])
            print(f"{model}, eps = {eps:g}: {time.perf_counter() - start:.0f} s", flush=True)
    output.mkdir(parents=True, exist_ok=True)
    for name, cells in {
        "cps_feasibility": feasibility, "cps_dp_statsmodels": peer, "cps_limits": limits,
    }.items():  # fmt: skip
        numbers = pd.concat(cells)
        small = [column for column in ("estimate", "hc1", "classical") if column in numbers]
        places = numbers.columns.difference(small)
        numbers[places] = numbers[places].round(4)
        for column in small:
            numbers[column] = [float(f"{x:.5g}") for x in numbers[column]]
        numbers.to_csv(output / f"{name}.csv", index=False)


def least_squares(formula, table):
    """Columns, coefficients, standard errors (HC1, classical) and residuals of the confidential fit."""
    numbers = table.astype({name: float for name in table.select_dtypes("boolean")})
    y, X = patsy.dmatrices(formula, numbers, return_type="dataframe")
    fit = sm.OLS(y.to_numpy()[:, 0], X.to_numpy()).fit()
    return X, fit.params, fit.get_robustcov_results("HC1", use_t=False).bse, fit.bse, fit.resid


def study(sample, formula, table, eps, releases):
    """The lines of a sample and eps, and the limits of the residual of its releases."""
    X, theirs, hc1, classical, _ = least_squares(formula, table)
    estimates, errors, low, high = np.full((4, releases, X.shape[1]), math.nan)
    limits = np.full(releases, math.nan)
    for seed in range(releases):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = dpstats.ols(formula, table, eps=eps, seed=seed)
        place = [X.columns.get_loc(term.removesuffix("[T.True]")) for term in fit.params.index]
        estimates[seed, place], errors[seed, place] = fit.params, fit.bse
        low[seed, place], high[seed, place] = fit.conf_int().to_numpy().T
        limits[seed] = limit_of(fit.notes)
    given = np.isfinite(high - low)
    bounds = theirs - Z * hc1, theirs + Z * hc1
    shared = np.where(given, overlap(low, high, *bounds), 0.0)
    signs = np.sign(estimates) == np.sign(theirs)
    decided = significant(low, high) == significant(*bounds)
    ratio = np.where(given, errors / hc1, math.inf)
    lines = pd.DataFrame({
        "sample": sample, "rows": len(table), "eps": eps, "releases": releases, "term": X.columns,
        "estimate": theirs, "hc1": hc1, "classical": classical,
        "overlap": shared.mean(axis=0), "overlap_median": np.median(shared, axis=0),
        "overlap_low": np.quantile(shared, 0.1, axis=0),
        "right": (given & signs & decided).mean(axis=0), "sign": signs.mean(axis=0),
        "holds": (given & (low <= theirs) & (theirs <= high)).mean(axis=0), "given": given.mean(axis=0),
        "ratio": np.median(ratio, axis=0), "ratio_high": np.quantile(ratio, 0.9, axis=0, method="higher"),
        "error": np.median(np.abs(estimates - theirs) / hc1, axis=0),
        "limit": np.nanmedian(limits), "limit_high": np.nanquantile(limits, 0.9),
    })  # fmt: skip
    return lines, limits


def overlap(low, high, other_low, other_high):
    """Mean of the shares that two intervals have in common, of the one and of the other.

    It is the measure of the appendix of Barrientos et al.: negative for intervals that lie apart.
    """
    common = np.minimum(high, other_high) - np.maximum(low, other_low)
    return (common / (high - low) + common / (other_high - other_low)) / 2


def significant(low, high):
    """Whether an interval leaves 0 out."""
    return (low > 0) | (high < 0)


def limit_of(notes):
    """The limit of the residual in the notes of a fit; NaN if none says it."""
    found = re.search(r"residual were at most (\d[\d.]*(?:e[-+]?\d+)?)", " ".join(notes))
    return float(found[1]) if found else math.nan


def looked_into(sample, formula, table, eps, chosen):
    """What limits of the residual do to the confidential fit, beside the limits `chosen` in releases."""
    X, _, _, _, residuals = least_squares(formula, table)
    n, q = X.shape
    V = np.linalg.qr(X.to_numpy())[0] * math.sqrt(n)  # orthonormal columns: the rounds' coordinates, turned
    length, sigma = np.linalg.norm(V, axis=1), math.sqrt(np.mean(residuals**2))
    spends = dpstats.ols(formula, table, eps=eps, seed=0).guarantee.spends
    mu = math.sqrt(sum(s.mu**2 for s in spends if s.step == "gradients, averaged rounds"))
    lines = []
    for size in SIZES:
        norm, moved = size * sigma * math.sqrt(q), np.zeros(q)
        for _ in range(100):
            left = residuals - V @ moved
            weights = np.minimum(1.0, norm / np.maximum(length * np.abs(left), 1e-300))
            moved = moved + V.T @ (weights * left) / n
        near = np.abs(np.log(chosen / (size * sigma))) < math.log(2) / 4
        sampling = q * sigma**2 / n
        lines.append({
            "sample": sample, "rows": n, "eps": eps, "sigma": sigma, "limit": size,
            "rows_cut": int(np.sum(length * np.abs(residuals) > norm)),
            "noise": q * (norm / mu / n) ** 2 / sampling, "bias": moved @ moved / sampling,
            "chosen": near.mean(),
        })  # fmt: skip
    return pd.DataFrame(lines)


# -- the page --------------------------------------------------------------------------------------------

NAMES = {
    "Intercept": "constant", "education": "education", "experience": "experience",
    "I(experience ** 2)": "experience^2", "I(experience ** 3)": "experience^3", "non_white": "non-white",
    "female": "female", "year_2024": "2024",
}  # fmt: skip


def filled(text):
    """The page with its tables written from the committed ones."""
    for name, lines in {
        "samples": by_sample(), "coefficients": by_coefficient(), "published": published(),
        "limits": limits_table(), "peer": peer_table(), "verdict": verdict(),
    }.items():  # fmt: skip
        begin, rest = text.split(f"<!-- {name} -->\n", 1)
        after = rest.split("<!-- end -->", 1)[1]
        text = "\n".join([f"{begin}<!-- {name} -->", "", *lines, "", "<!-- end -->"]) + after
    return text


def table_of(header, rows):
    """Lines of a Markdown table."""
    return ["| " + " | ".join(cells) + " |" for cells in (header, ["---"] * len(header), *rows)]


def by_sample():
    rows = []
    for (sample, eps), cell in pd.read_csv(HERE / "cps_feasibility.csv").groupby(
        ["sample", "eps"], sort=False
    ):
        low, right = cell["overlap"].min(), cell["right"].min()
        ratio, met = cell["ratio"], low >= OVERLAP and right >= RIGHT
        rows.append([
            sample, f"{cell['rows'].iloc[0]:,}", f"{eps:g}", f"{low:.2f}", f"{100 * right:.0f} %",
            f"{ratio.min():.2f} to {ratio.max():.2f}", f"{100 * cell['holds'].min():.0f} %",
            "yes" if met else "no",
        ])  # fmt: skip
    return table_of(["sample", "rows", "eps", "overlap, least", "right, least", "standard errors over HC1",
                     "holds, least", "overlap .8 and right 95 %"], rows)  # fmt: skip


def verdict():
    """Where the bar is reached, and by how much it is missed."""
    ours = pd.read_csv(HERE / "cps_feasibility.csv")
    reached, missed = [], []
    for sample, cell in ours[ours["eps"] == EPS_OF_BAR].groupby("sample", sort=False):
        low, right = cell["overlap"].min(), cell["right"].min()
        if low >= OVERLAP and right >= RIGHT:
            reached.append(sample)
        else:
            missed.append(f"{sample} (overlap from {low:.2f}, right from {100 * right:.0f} %)")
    return [
        f"At eps = {EPS_OF_BAR:g} the bar is reached in {len(reached)} of {len(SAMPLES)} samples: "
        f"{', '.join(reached) or 'none'}." + (f" It is missed in {', '.join(missed)}." if missed else "")
    ]


def by_coefficient():
    table = pd.read_csv(HERE / "cps_feasibility.csv")
    table = table[table["eps"] == EPS_OF_BAR]
    rows = []
    for term, name in NAMES.items():
        part = table[table["term"] == term].set_index("sample")
        if len(part):
            rows.append([name, *(
                f"{part.loc[s, 'overlap']:.2f}, {100 * part.loc[s, 'right']:.0f} %" if s in part.index else ""
                for s in SAMPLES
            )])  # fmt: skip
    return table_of([f"eps = {EPS_OF_BAR:g}", *SAMPLES], rows)


def published():
    theirs = pd.read_csv(HERE / "cps_feasibility_published.csv")
    ours = pd.read_csv(HERE / "cps_feasibility.csv")
    terms = list(dict.fromkeys(theirs["term"]))
    rows = []
    for (method, interval, eps), cell in theirs.groupby(["method", "interval", "eps"], sort=False):
        right = cell.set_index("term")["right"]
        rows.append([f"{method}, {interval}", f"{eps:g}", *(f"{right[t]}" for t in terms)])
    for sample, eps in (("women 2009", e) for e in EPS):
        right = ours[(ours["sample"] == sample) & (ours["eps"] == eps)].set_index("term")["right"]
        rows.append(["`dpstats.ols`, women 2009", f"{eps:g}", *(f"{100 * right[t]:.0f}" for t in terms)])
    return table_of(["right in 100 releases", "eps", *(NAMES[t] for t in terms)], rows)


def limits_table():
    rows = []
    for sample, cell in pd.read_csv(HERE / "cps_limits.csv").groupby("sample", sort=False):
        cell = cell.assign(loss=cell["noise"] + cell["bias"])
        best, most = cell.loc[cell["loss"].idxmin()], cell.loc[cell["chosen"].idxmax()]
        expected = (cell["chosen"] * cell["loss"]).sum() / max(cell["chosen"].sum(), 1e-9)
        rows.append([
            sample, f"{best['limit']:g}", f"{best['noise']:.2f} + {best['bias']:.2f}", f"{most['limit']:g}",
            f"{100 * cell.loc[cell['limit'] > 1.3 * best['limit'], 'chosen'].sum():.0f} %", f"{expected:.2f}",
        ])  # fmt: skip
    return table_of(["eps = 1", "best limit", "noise + bias there", "most often chosen",
                     "wider than the best", "noise + bias, mean of the releases"], rows)  # fmt: skip


def peer_table():
    table, rows = pd.read_csv(HERE / "cps_dp_statsmodels.csv"), []
    for (model, eps), cell in table.groupby(["sample", "eps"], sort=False):
        slopes = cell[cell["term"] != "Intercept"]
        ratio = slopes["ratio"] * slopes["hc1"] / slopes["classical"]
        rows.append([
            model, f"{eps:g}", f"{ratio.min():.2f} to {ratio.max():.2f}",
            f"{slopes['ratio'].min():.2f} to {slopes['ratio'].max():.2f}", f"{slopes['overlap'].min():.2f}",
            f"{100 * slopes['right'].min():.0f} %",
        ])  # fmt: skip
    return table_of(["slopes of", "eps", "standard errors over classical ones", "over HC1", "overlap, least",
                     "right, least"], rows)  # fmt: skip


def figures():
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    style = {"font.size": 8, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
             "grid.color": "#dddddd", "axes.axisbelow": True}  # fmt: skip
    with plt.rc_context(style):
        for name, draw in {"cps_feasibility": draw_feasibility, "cps_dp_statsmodels": draw_peer}.items():
            figure = draw(plt)
            figure.savefig(HERE / f"{name}.png", dpi=110, metadata={"Software": None})
            plt.close(figure)


COLOURS = ("#0072B2", "#56B4E9", "#009E73", "#CC79A7", "#000000")


def draw_feasibility(plt):
    ours = pd.read_csv(HERE / "cps_feasibility.csv")
    theirs = pd.read_csv(HERE / "cps_feasibility_published.csv")
    theirs = theirs[theirs["method"] == "analytic Gaussian"]
    terms = list(dict.fromkeys(theirs["term"]))
    figure, axes = plt.subplots(
        2, len(terms), figsize=(11, 4.8), sharex=True, sharey="row", layout="constrained"
    )
    for term, (top, bottom) in zip(terms, axes.T, strict=True):
        for colour, sample in zip(COLOURS, SAMPLES, strict=True):
            part = ours[(ours["term"] == term) & (ours["sample"] == sample)]
            if len(part):
                top.plot(part["eps"], part["overlap"], "o-", color=colour, ms=4, label=sample)
                bottom.plot(part["eps"], part["right"], "o-", color=colour, ms=4)
        for mark, (interval, part) in zip(("s:", "^:"), theirs[theirs["term"] == term].groupby("interval"),
                                          strict=True):  # fmt: skip
            bottom.plot(part["eps"], part["right"] / 100, mark, color="#D55E00", ms=4,
                        label=f"analytic Gaussian, {interval}")  # fmt: skip
        top.axhline(OVERLAP, color="#888888", lw=0.8)
        bottom.axhline(RIGHT, color="#888888", lw=0.8)
        top.set(title=NAMES[term], xscale="log", ylim=(0.5, 1))
        bottom.set(xlabel="eps", ylim=(-0.03, 1.03), xticks=EPS, xticklabels=[f"{e:g}" for e in EPS])
        bottom.minorticks_off()
    axes[0, 0].set_ylabel("overlap with the confidential interval")
    axes[1, 0].set_ylabel("sign and significance right")
    handles = {line.get_label(): line for a in axes.flat for line in a.get_legend_handles_labels()[0]}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, frameon=False)
    return figure


def draw_peer(plt):
    ours = pd.read_csv(HERE / "cps_dp_statsmodels.csv")
    ours = ours[(ours["term"] != "Intercept") & (ours["sample"] == next(iter(MODELS)))]
    theirs = pd.read_csv(HERE / "cps_dp_statsmodels_published.csv")
    figure, axis = plt.subplots(figsize=(5, 3.4), layout="constrained")
    axis.plot(theirs["eps"], theirs["ratio"], "^:", color="#D55E00", label="dp-statsmodels, as published")
    for colour, (term, part) in zip(COLOURS, ours.groupby("term"), strict=False):
        ratio = part["ratio"] * part["hc1"] / part["classical"]
        axis.plot(part["eps"], ratio, "o-", color=colour, label=f"dpstats.ols, {NAMES[term]}")
    axis.axhline(1, color="#888888", lw=0.8)
    axis.set(xscale="log", yscale="log", xlabel="eps", ylabel="standard error over that of least squares")
    axis.legend(frameon=False)
    return figure


if __name__ == "__main__":
    main()
