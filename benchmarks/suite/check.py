"""Is a run worse than the committed results by more than its noise?

Single runs are compared by ranks: under "nothing has changed" every order of old and new values of a cell is
equally likely, so the sum of the ranks of the new values, added up over a stratum's cells, has a known law,
ties included. No law of the values is assumed. Coverage is compared by Fisher's exact test, widths by their
medians. All tests of a run together raise a false alarm with probability at most :data:`FALSE_ALARM`
(Bonferroni).

Times are compared only between runs on the same processor without other work (a load of at most
:data:`QUIET`), as ratios to statsmodels on the same data. Times of one day are not exchangeable with those of
another, so no error rate is claimed: a growth by more than :data:`SLOWER` is reported.
"""

import math

import numpy as np
from scipy import stats

from suite.speed import BASES

FALSE_ALARM = 1e-3
SLOWER = 1.3
QUIET = 1.0


def rank_law(values, size):
    """Law of the sum of doubled mid-ranks of `size` of the `values`, chosen at random.

    Parameters
    ----------
    values : (n,) array
    size : int

    Returns
    -------
    ranks : (n,) int array
        Doubled mid-ranks of the values.
    law : array
        ``law[s]`` is the probability of the sum ``s``.
    """
    ranks = np.rint(2 * stats.rankdata(values)).astype(int)
    ways = np.zeros((size + 1, ranks.sum() + 1))
    ways[0, 0] = 1.0
    for rank in ranks:
        ways[1:, rank:] += ways[:-1, : len(ways[0]) - rank].copy()
    return ranks, ways[size] / ways[size].sum()


def lower(pairs):
    """p-value of "the new values are not lower", over cells.

    Parameters
    ----------
    pairs : list of (old, new)
        Arrays of each cell. A run without a result is ``-inf``: worse than any.

    Returns
    -------
    float
        Probability that the new values' ranks add up to so little if old and new are exchangeable.
    """
    total, law = 0, np.ones(1)
    for old, new in pairs:
        # the smaller sample's ranks are cheaper to add up, and say the same
        chosen, other, sign = (new, old, 1) if len(new) <= len(old) else (old, new, -1)
        ranks, cell = rank_law(sign * np.concatenate([chosen, other]), len(chosen))
        total += ranks[: len(chosen)].sum()
        law = np.convolve(law, cell)
    return float(min(1.0, law[: total + 1].sum()))


def accuracy(old, new):
    """Methods whose R-squared is lower than it was, by data set: one test over the budgets for each."""
    before, tests = _by_cell(old), {}
    for (*where, eps), now in _by_cell(new).items():
        if (*where, eps) in before:
            tests.setdefault(tuple(where), []).append((before[*where, eps], now))
    return [
        (f"accuracy of {where[2]} on {where[0]} ({where[1]})", lower(cells), _change(cells))
        for where, cells in tests.items()
    ]


def _by_cell(table):
    scores = (
        table["r2"]
        .fillna(-np.inf)
        .groupby([table[c] for c in ("data", "columns", "method", "eps")], sort=False)
    )
    return {name: part.to_numpy() for name, part in scores}


def _change(cells):
    """How much was lost where most was, in words."""
    drops = [np.median(old[np.isfinite(old)]) - np.median(new[np.isfinite(new)])
             for old, new in cells if np.isfinite(old).any() and np.isfinite(new).any()]  # fmt: skip
    failed = [np.isinf(np.concatenate(side)).mean() for side in zip(*cells, strict=True)]
    lost = f"median R2 lower by up to {max(drops):.4f}, " if drops else ""
    return f"{lost}{100 * failed[1]:.0f} % failed after {100 * failed[0]:.0f} %"


def validity(old, new):
    """Cells whose coverage is lower than it was, or whose intervals are wider."""
    key, tests = ["estimator", "design", "rows", "coefficient"], []
    both = new[new["coefficient"] != "all"].merge(old, on=key, suffixes=("", "_old"))
    for row in both.to_dict("records"):
        where = f"{row['estimator']}, {row['coefficient']} ({row['design']}, {row['rows']} rows)"
        table = [[row["covered"], row["intervals"] - row["covered"]],
                 [row["covered_old"], row["intervals_old"] - row["covered_old"]]]  # fmt: skip
        p = stats.fisher_exact(table, alternative="less")[1]
        tests.append(
            (f"coverage of {where}", float(p), f"{row['coverage']:.3f} after {row['coverage_old']:.3f}")
        )
        sd = math.hypot(_log_error(row, ""), _log_error(row, "_old"))
        if 0 < sd < math.inf:
            p = stats.norm.sf(math.log(row["width"] / row["width_old"]) / sd)
            tests.append((f"width of {where}", float(p), f"{row['width']:.3g} after {row['width_old']:.3g}"))
    return tests


def _log_error(row, suffix):
    """Standard error of the log of a median, from its quartiles, as for a normal law; infinite for few."""
    low, middle, high, count = (row[f"{c}{suffix}"] for c in ("width_q25", "width", "width_q75", "intervals"))
    if not (0 < low <= middle <= high < math.inf and count >= 20):
        return math.inf
    return 1.2533 * (high - low) / 1.349 / middle / math.sqrt(count)


def speed(old, new):
    """Calls whose least time, relative to statsmodels, grew by more than :data:`SLOWER`: texts, without an
    error rate."""
    place, found = ["table", "rows", "columns", "method"], []
    both = new.merge(old, on=place, suffixes=("", "_old"))
    for row in both[~both["method"].isin(BASES)].to_dict("records"):
        now, before = row["over_statsmodels"], row["over_statsmodels_old"]
        if now > SLOWER * before:
            what = f"speed of {row['method']} ({row['rows']} x {row['columns']})"
            found.append(f"{what}: {now:.3g} times statsmodels after {before:.3g}")
    return found


def alarms(tests, false_alarm=FALSE_ALARM):
    """The tests that are significant at `false_alarm` for all of them together, the clearest first.

    Parameters
    ----------
    tests : list of (what, p, text)
    false_alarm : float

    Returns
    -------
    list of str
    """
    found = sorted((p, what, text) for what, p, text in tests if p <= false_alarm / len(tests))
    return [f"{what}: {text} (p = {p:.1g})" for p, what, text in found]


def comparable(runs, speed):
    """Processor of the runs that a table of times comes from, or None if they differ or had other work beside
    them."""
    here = runs[runs["run"].isin(speed["run"])]
    processors = set(here["processor"])
    return processors.pop() if len(processors) == 1 and here["load"].max() <= QUIET else None


def compare(new, old):
    """Everything that got worse, as texts.

    Parameters
    ----------
    new, old : callable
        File name to table, which may be empty.

    Returns
    -------
    list of str, int
        The alarms, and the number of tests made.
    """
    tests = []
    for name, function in (("accuracy_runs.csv.gz", accuracy), ("validity.csv", validity)):
        if not (new(name).empty or old(name).empty):
            tests += function(old(name), new(name))
    found = alarms(tests)
    if not (new("speed.csv").empty or old("speed.csv").empty):
        processors = [comparable(table("runs.csv"), table("speed.csv")) for table in (old, new)]
        if processors[0] is not None and processors[0] == processors[1]:
            found += speed(old("speed.csv"), new("speed.csv"))
    return found, len(tests)
