"""How near to least squares a private fit could come that knows all but the noise; writes limits.csv.

    python benchmarks/real/limits.py DATA       # DATA as of study.py; a minute

Here privacy has no part. Rows are whitened exactly, the rounds start at the answer, and of all clips ``C``
the best is taken: what the clip takes off is what it is (the coefficients where clipped scores add up to 0,
less those of least squares), and noise of the standard deviation ``C/mu`` is in the sum of the scores. Such a
fit is not to be had, and `ols` is of this kind, so that what it may hope for is less.

Columns: `share`, of the budget at eps = 1 that the sum of the scores has, all of it or that of the averaged
rounds of `ols`; `times`, the clip over the median length of a score, and `rows_cut`, where the expected loss
of R2, `loss`, is least; `bias` and `noise`, its two parts; `se_ratio`, the median over coefficients of the
root of sampling variance (HC1), variance of the noise and squared bias over the standard error of least
squares, where that is least.
"""

import sys

import numpy as np
import patsy
from directions import HERE, rows_of

from dpstats.privacy.conversions import gdp_mu

TIMES = 2.0 ** np.arange(10, -1, -1)
EPS, DELTA = 1.0, 1e-6
SHARES = 1.0, 0.28
LOSS, RATIO = 0.01, 2.0
LEAST = 0.02  # share of a direction that rows within the clip are held to have


def main(data):
    table = rows_of(data, limits)
    table.round(5).to_csv(HERE / "limits.csv", index=False)
    print(summary(table))


def limits(problem, frame):
    """The rows of a problem: one for every share of the budget."""
    y, X = (np.asarray(part, float) for part in patsy.dmatrices(problem["formula"], frame))
    y, (n, q) = y[:, 0], X.shape
    Q, R = np.linalg.qr(X)
    back = np.linalg.inv(R)
    b = least = Q.T @ y
    r = y - Q @ least
    total = np.sum((y - y.mean()) ** 2)
    sampling = np.sqrt(np.sum(((Q * r[:, None]) @ back.T) ** 2, axis=0) * n / (n - q))
    lengths = np.sqrt(n) * np.linalg.norm(Q, axis=1)
    median = np.median(lengths * np.abs(r))
    found = []
    for times in TIMES:
        b = clipped(Q, y, lengths, times * median, b)
        inside = lengths * np.abs(y - Q @ b) < times * median
        values, vectors = np.linalg.eigh((Q * inside[:, None]).T @ Q)
        inverse = vectors / np.maximum(values, LEAST) @ vectors.T
        found.append((times, np.count_nonzero(~inside), b - least, times * median / np.sqrt(n) * inverse))
    for share in SHARES:
        mu = np.sqrt(share) * gdp_mu(EPS, DELTA)
        losses, ratios = [], []
        for times, cut, bias, unit in found:
            parts = bias @ bias / total, np.sum((unit / mu) ** 2) / total
            losses.append((sum(parts), times, cut, *parts))
            noise = np.sum((back @ unit / mu) ** 2, axis=1)
            ratios.append(np.median(np.sqrt(sampling**2 + noise + (back @ bias) ** 2) / sampling))
        loss, times, cut, bias, noise = min(losses)
        yield {
            "problem": problem["name"], "part": problem["part"], "rows": n, "coefficients": q, "share": share,
            "times": times, "rows_cut": cut, "loss": loss, "bias": bias, "noise": noise,
            "se_ratio": min(ratios),
        }  # fmt: skip


def clipped(Q, y, lengths, clip, start):
    """The coefficients where scores of at most `clip` add up to 0, by weighted least squares."""
    b = start
    for _ in range(200):
        sizes = lengths * np.abs(y - Q @ b)
        weights = np.minimum(1.0, clip / np.maximum(sizes, 1e-300))[:, None]
        b, before = np.linalg.solve((Q * weights).T @ Q, (Q * weights).T @ y), b
        if np.max(np.abs(b - before)) <= 1e-6 * np.max(np.abs(b)):
            break
    return b


def summary(table):
    """By part and share: problems whose loss is small, the median ratio of standard errors, the others."""
    lines = []
    for (part, share), cell in table.groupby(["part", "share"]):
        near = cell["loss"] <= LOSS
        lines.append(
            f"{part}, {share:.0%} of the budget: R2 near in {near.sum()} of {len(cell)}, median ratio "
            f"{cell['se_ratio'].median():.2f}, at most {RATIO:g} in {(cell['se_ratio'] <= RATIO).sum()}; "
            f"not near {', '.join(cell.loc[~near, 'problem'])}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main(*sys.argv[1:])
