"""Figures and tables of the four papers that the package grew from, run again with it.

    STUDY=benchmarks/replications/papers/study.py
    OMP_NUM_THREADS=1 python $STUDY RAW [--data DIR]      # all parts; RAW: the files that tasks.py reads
    OMP_NUM_THREADS=1 python $STUDY --only models         # one part; those without tasks need no RAW
    python $STUDY --summary                               # README's tables and the figure again

Parts, each with its table: ``models``, ``distance`` and ``shape`` (Amin et al. 2022, Figures 1 and 5, 2, 6 to
13), ``kendall`` (DPKendall paper, Figures 3 to 5) and ``boosted`` (Tang et al. 2023, Figures 1 to 3 (c)).
``published.csv`` has what the papers print. A release that fails counts as one without an R-squared; medians
are those of the releases that there are, and `failed` says how many are missing.
"""

import argparse
import math
import sys
import time
import warnings
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from scipy import stats

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from replications.papers.tasks import FILES, TASKS, load  # noqa: E402
from suite import problems  # noqa: E402

import dpstats  # noqa: E402
from dpstats.mechanisms import tukey  # noqa: E402
from dpstats.mechanisms.ptr import threshold  # noqa: E402
from dpstats.mechanisms.rng import Randomness  # noqa: E402

LN3 = math.log(3)
PARTS = ("models", "distance", "shape", "kendall", "boosted")
AMIN = ("synthetic", "california", "diamonds", "nba", "garbage")
LEFT_OUT = {361080, 361081, 361082, 361084}
"""Restricted versions of other tasks, which the DPKendall paper leaves out."""
EXACT, OLS, TUKEY, BOOSTED = "least squares", "ols", "tukey_em", "boosted_adassp"
THEIRS = (EXACT, "K-Tukey", "K-BAS")
AS_PUBLISHED = {TUKEY: {"whiten": False}, BOOSTED: {"standardize": False, "clip": 1.0, "rounds": 100}}


def main(arguments=None):
    """Run the parts, write their tables, and fill the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("raw", type=Path, nargs="?", help=", ".join(FILES))
    parser.add_argument("--data", type=Path, help="folder of nba.parquet and garbage.parquet")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--output", type=Path, default=HERE)
    parser.add_argument("--summary", action="store_true")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    for part in () if options.summary else options.only:
        begin, rows = time.process_time(), []
        for row in globals()[part](options):
            rows.append(row)
            pd.DataFrame(rows).to_csv(
                options.output / f"{part}.csv", index=False, float_format="%.4g", lineterminator="\n"
            )
        print(f"{part}: {time.process_time() - begin:.0f} s", flush=True)
    if options.output == HERE:
        page = HERE / "README.md"
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
        figure()


def quartiles(scores):
    """Median, quartiles and failures."""
    there = np.array(scores)[np.isfinite(scores)]
    q25, median, q75 = np.quantile(there, [0.25, 0.5, 0.75]) if len(there) else [math.nan] * 3
    return {
        "runs": len(scores), "failed": len(scores) - len(there), "q25": q25, "median": median, "q75": q75
    }  # fmt: skip


# Amin et al. (2022) -----------------------------------------------------------------------------------------


def models(options):
    """R-squared by the number of models, at eps = ln 3 and delta = 1e-5 (Figures 1 and 5)."""
    there = problems.available(options.data)[0]
    for name in (n for n in AMIN if n in there):
        problem = problems.load(name, problems.ALL, options.data)
        for whiten in (False, True):
            for m in range(250, 2_001, 250):
                scores, begin = [], time.process_time()
                for seed in range(options.runs):
                    try:
                        fit = dpstats.tukey_em(
                            problem.formula, problem.frame, eps=LN3, delta=1e-5, models=m, whiten=whiten,
                            seed=seed,
                        )  # fmt: skip
                        scores.append(problem.r_squared(np.asarray(fit.predict(problem.frame))))
                    except dpstats.ReleaseFailed:
                        scores.append(math.nan)
                seconds = (time.process_time() - begin) / options.runs
                yield {"data": name, "whiten": whiten, "models": m} | quartiles(scores) | {"seconds": seconds}


def distance(options):
    """Distance to unsafety by columns and models, ``n = (d + 1) m`` (Figure 2, left), and what passes."""
    eps_test, eps_draw = 0.3 * LN3, 0.7 * LN3
    for d in (2, 5, 10, 20):
        for m in range(250, 2_001, 250):
            rng = np.random.default_rng([d, m])
            effects = 100 * rng.random(d - 1)
            fits = []
            for _ in range(m):
                X = np.column_stack([rng.standard_normal((d + 1, d - 1)), np.ones(d + 1)])
                y = X[:, :-1] @ effects + 10 * rng.standard_normal(d + 1)
                fits.append(np.linalg.lstsq(X, y, rcond=None)[0])
            boxes = tukey.Boxes.of(tukey.jitter(np.array(fits), Randomness(0)))
            row = {"columns": d, "models": m}
            row["distance_paper"] = paper_distance(boxes.log_volume, LN3 / 2, 1e-5 / (8 * math.exp(LN3 / 2)))
            row["threshold_paper"] = math.log(1 / (2 * 1e-5)) / (LN3 / 2)
            row["distance"] = tukey.margin(boxes, round(0.15 * m), eps_draw, 1e-5)
            yield row | {"threshold": threshold(eps_test, 1e-5)}


def paper_distance(log_volume, eps, delta):
    """Lemma 3.6: largest ``k < t`` with ``V_{t-k-1} / V_{t+k+g+1} e^{-eps g / 2} <= delta``, some g > 0."""
    t = len(log_volume) // 2
    log_v = np.append(math.nan, log_volume)  # depths begin at 1
    best = -1
    for k in range(t - 1):
        g = np.arange(1, len(log_v) - (t + k + 1))
        if not len(g) or np.min(log_v[t - k - 1] - log_v[t + k + 1 + g] - eps * g / 2) > math.log(delta):
            break
        best = k
    return best


def shape(options):
    """How normal 2,000 least-squares fits on disjoint rows are (Figures 6 to 13): not private."""
    there = problems.available(options.data)[0]
    for name in (n for n in AMIN if n in there):
        problem = problems.load(name, problems.ALL, options.data)
        order = np.random.default_rng(0).permutation(len(problem.y))
        Z = np.column_stack([problem.X, np.ones(len(problem.y))])
        fits = np.array([
            np.linalg.lstsq(Z[rows], problem.y[rows], rcond=None)[0] for rows in np.array_split(order, 2_000)
        ])  # fmt: skip
        names = [c for c in problem.frame.columns if c != problem.formula.split(" ~ ")[0]]
        for column, fit in zip([*names, "constant"], fits.T, strict=True):
            deviation = np.std(fit)
            inner = np.subtract(*np.quantile(fit, [0.75, 0.25])) / (2 * stats.norm.ppf(0.75))
            yield {
                "data": name, "column": column, "rows_each": len(problem.y) // 2_000,
                "skewness": stats.skew(fit), "excess_kurtosis": stats.kurtosis(fit),
                "quartiles_over_deviation": inner / deviation,
            }  # fmt: skip


# The tasks of Tang et al. (2023) and of the DPKendall paper -------------------------------------------------


def kendall(options):
    """R-squared on a tenth of the rows, eps = ln 3 and delta = 1e-5, 5 % for the choice of k columns."""
    for task in (t for t in TASKS if t not in LEFT_OUT):
        X, y = load(task, options.raw)
        scores = {}
        for seed in range(options.runs):
            train, test = split(len(y), 0.1, seed)
            one = run(X[train], y[train], X[test], y[test], LN3, 1e-5, seed)
            for k in (5, 10):
                if k < X.shape[1]:
                    budget = {"eps": 0.05 * LN3, "delta": 0.05 * 1e-5}
                    frame = table(X[train], y[train])
                    chosen = dpstats.select_features(
                        "y ~ .", frame, k=k, method="kendall", seed=seed, **budget
                    ).model
                    for name in (TUKEY, BOOSTED):
                        one(f"{name}, as published", k, name, chosen, 0.95, **AS_PUBLISHED[name])
                    for name in (TUKEY, OLS):
                        one(f"{name}, select", k, name, "y ~ .", 1.0, select=k)
            for name in (TUKEY, BOOSTED):
                one(f"{name}, as published", 0, name, "y ~ .", 1.0, **AS_PUBLISHED[name])
            for name in (OLS, TUKEY, BOOSTED):
                one(name, 0, name, "y ~ .", 1.0)
            one(EXACT, 0)
            for key, (r2, _) in one.found.items():
                scores.setdefault(key, []).append(r2)
        for (method, k), r2 in scores.items():
            yield {"task": task, "name": TASKS[task][0], "k": k, "method": method} | quartiles(r2)


def boosted(options):
    """Mean square error on a fifth of the rows over that of least squares, eps = 1 and delta = 1e-6."""
    for task in TASKS:
        X, y = load(task, options.raw)
        ratios = {}
        for seed in range(options.runs):
            train, test = split(len(y), 0.2, seed)
            one = run(X[train], y[train], X[test], y[test], 1.0, 1e-6, seed)
            one(EXACT, 0)
            one("boosted_adassp, as published", 0, BOOSTED, "y ~ .", 1.0, **AS_PUBLISHED[BOOSTED])
            one("adassp, as published", 0, "adassp", "y ~ .", 1.0, standardize=False, clip=1.0)
            one("gradient_descent, raw columns", 0, "gradient_descent", "y ~ .", 1.0, standardize=False)
            one("tukey_em, as published", 0, TUKEY, "y ~ .", 1.0, **AS_PUBLISHED[TUKEY])
            for name in (BOOSTED, OLS):
                one(name, 0, name, "y ~ .", 1.0)
            reference = one.found[EXACT, 0][1]
            for (method, _), (_, error) in one.found.items():
                ratios.setdefault(method, []).append(error / reference)
        for method, ratio in ratios.items():
            yield {"task": task, "name": TASKS[task][0], "method": method} | quartiles(ratio)


def split(n, share, seed):
    """Rows to fit and rows to score."""
    order = np.random.default_rng(seed).permutation(n)
    return np.split(order, [n - round(share * n)])


def table(X, y):
    """The columns as x0, x1, ... and the response y."""
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]).assign(y=y)


class run:  # noqa: N801
    """The fits of one split: R-squared and mean square error on the rows left out."""

    def __init__(self, X, y, X_test, y_test, eps, delta, seed):
        self.X, self.y, self.X_test, self.y_test = X, y, X_test, y_test
        self.frame, self.test = table(X, y), table(X_test, y_test)
        self.eps, self.delta, self.seed, self.found = eps, delta, seed, {}

    def __call__(self, label, k, name=None, formula=None, share=1.0, **given):
        try:
            if name is None:
                Z = np.column_stack([self.X, np.ones(len(self.X))])
                beta = np.linalg.lstsq(Z, self.y, rcond=None)[0]
                predicted = np.column_stack([self.X_test, np.ones(len(self.X_test))]) @ beta
            else:
                fit = getattr(dpstats, name)(
                    formula, self.frame, eps=share * self.eps, delta=share * self.delta, seed=self.seed,
                    **given,
                )  # fmt: skip
                predicted = np.asarray(fit.predict(self.test))
            error = float(np.mean((self.y_test - predicted) ** 2))
            self.found[label, k] = 1 - error / np.var(self.y_test), error
        except dpstats.ReleaseFailed:
            self.found[label, k] = math.nan, math.nan


# README -----------------------------------------------------------------------------------------------------


def number(x):
    """An R-squared as the page has it."""
    return "-" if not np.isfinite(x) else f"{x:.3f}" if abs(x) < 10 else f"{x:.2g}"


def markdown(head, rows):
    """A table."""
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def models_table():
    """Published R-squared beside ours: at the least number of models that always passed, and whitened."""
    table, quoted = pd.read_csv(HERE / "models.csv"), published("Figure 1")
    rows = []
    for name, part in table.groupby("data", sort=False):
        cells = [name]
        cells += [number(quoted[name, m]) for m in ("least squares", "TukeyEM", "DP-SGD, tuned")]
        for whiten in (False, True):
            passed = part[(part["whiten"] == whiten) & (part["failed"] == 0)]
            cells += [
                f"{number(passed['median'].iloc[0])} ({passed['models'].iloc[0]})" if len(passed) else "-"
            ]
        rows.append(cells)
    head = [
        "data",
        "least squares",
        "TukeyEM",
        "DP-SGD, tuned",
        "ours as published (models)",
        "ours (models)",
    ]
    return markdown(head, rows)


def kendall_table():
    """Median R-squared at k = 5 and without a choice, theirs and ours."""
    table, quoted = pd.read_csv(HERE / "kendall.csv"), published("Figure 4")
    ours = table.set_index(["task", "method", "k"])["median"]
    columns = [(EXACT, 0), (TUKEY + ", as published", 5), (BOOSTED + ", as published", 5),
               (TUKEY + ", select", 5), (OLS + ", select", 5), (OLS, 0)]  # fmt: skip
    rows = [
        [str(task), name, *(number(quoted.get((str(task), m), math.nan)) for m in THEIRS),
         *(number(ours.get((task, *column), math.nan)) for column in columns)]
        for task, name in dict.fromkeys(zip(table["task"], table["name"], strict=True))
    ]  # fmt: skip
    head = ["task", "data", "theirs: least squares", "K-Tukey", "K-BAS", "here: least squares",
            "K-Tukey", "K-BAS", "tukey_em(select=5)", "ols(select=5)", "ols"]  # fmt: skip
    return markdown(head, rows)


def boosted_table():
    """Median mean square errors over that of least squares."""
    table = pd.read_csv(HERE / "boosted.csv")
    wide = table[table["method"] != EXACT].pivot(index="task", columns="method", values="median")
    names = [m for m in dict.fromkeys(table["method"]) if m != EXACT]
    labels = dict(zip(table["task"], table["name"], strict=True))
    rows = [[str(t), labels[t], *(number(wide.loc[t, m]) for m in names)] for t in wide.index]
    return markdown(["task", "data", *names], rows)


def published(figure):
    """What a figure prints: (data, method) to value."""
    table = pd.read_csv(HERE / "published.csv", dtype={"data": str})
    part = table[table["figure"] == figure]
    return dict(zip(zip(part["data"], part["method"], strict=True), part["value"], strict=True))


TABLES = {"models": models_table, "kendall": kendall_table, "boosted": boosted_table}


def filled(page):
    """The page with its tables."""
    for mark, make in TABLES.items():
        if (HERE / f"{mark}.csv").exists():
            before, rest = page.split(f"<!-- {mark} -->\n")
            page = (
                before
                + f"<!-- {mark} -->\n{make()}\n<!-- end of {mark} -->"
                + rest.split(f"<!-- end of {mark} -->")[1]
            )
    return page


def figure():
    """R-squared by the number of models (Figure 5), and the distance to unsafety (Figure 2, left)."""
    table, far = pd.read_csv(HERE / "models.csv"), pd.read_csv(HERE / "distance.csv")
    fig, axes = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
    for axis, whiten in zip(axes, (False, True), strict=False):
        for name, part in table[(table["whiten"] == whiten) & (table["failed"] == 0)].groupby(
            "data", sort=False
        ):
            axis.plot(part["models"], part["median"], marker="o", markersize=3, label=name)
            axis.fill_between(part["models"], part["q25"], part["q75"], alpha=0.2)
        axis.set(title=f"tukey_em{'' if whiten else ', axes of the columns'}", xlabel="models",
                 ylabel="R-squared", ylim=(-1, 1.05))  # fmt: skip
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize=8)
    for k, (d, part) in enumerate(far.groupby("columns")):
        axes[2].plot(part["models"], part["distance_paper"], f"C{k}--")
        axes[2].plot(part["models"], part["distance"], f"C{k}-", label=f"{d} columns")
    axes[2].axhline(far["threshold_paper"].iloc[0], color="0.5", linestyle="--", linewidth=1)
    axes[2].axhline(far["threshold"].iloc[0], color="0.5", linewidth=1)
    axes[2].set(title="distance: ours (line), Lemma 3.6 (dashes)", xlabel="models", ylabel="models to change")
    axes[2].legend(fontsize=8)
    axes[2].grid(alpha=0.3)
    fig.savefig(HERE / "amin.png", dpi=110, metadata={"Software": None})
    plt.close(fig)


if __name__ == "__main__":
    main()
