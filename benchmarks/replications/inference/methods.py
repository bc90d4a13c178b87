"""Three published methods with intervals, from the equations of their papers, at exactly ``mu``-GDP.

Neighbours differ by one row added or removed. All take the number of rows as public; ``dpstats.ols`` does
not.
``rows.Z`` has columns in [-1, 1] and ``rows.back`` maps coefficients to those that are compared, which is
postprocessing. A method returns estimates and intervals: a (d, 3) array.
"""

from dataclasses import dataclass

import numpy as np
from scipy import stats

__all__ = ["Rows", "binagg", "binagg_costs", "dp_gd", "ssp_bootstrap"]

Z95 = stats.norm.ppf(0.975)


@dataclass(frozen=True)
class Rows:
    """A data set and what the method is told about it.

    Attributes
    ----------
    Z, y : (n, d) and (n,) arrays
    low : (d,) array
        Bounds of the columns are ``low`` and 1.
    response : (float, float)
    mean, scale : (d,) arrays
        True means and standard deviations of the columns.
    noise : float
        True standard deviation of the errors.
    back : (d, d) array
    """

    Z: np.ndarray
    y: np.ndarray
    low: np.ndarray
    response: tuple[float, float]
    mean: np.ndarray
    scale: np.ndarray
    noise: float
    back: np.ndarray

    @property
    def reach(self):
        """Bound of the absolute response."""
        return max(abs(b) for b in self.response)


# BinAgg: Lin, Slavkovic & Bhoomireddy (2026), arXiv:2510.16974 ------------------------------------------


def binagg_costs(d):
    """What :func:`binagg` costs, in units of its ``mu``.

    Of ``mu^2`` the tree has one part of 28, and counts, sums of responses and sums of columns nine each. The
    noise on the sums of `d` columns is that for a single one, and a row in the corner of a leaf moves them by
    ``sqrt(d)`` times as much.
    """
    return np.sqrt((19 + 9 * d) / 28)


def binagg(rows, mu, rng):
    """Sums over the leaves of a private tree; weighted least squares, corrected for the noise in the sums.

    As the authors' package has it, in the noise (:func:`binagg_costs`) and in the correction of the estimate,
    which is a K-th of the one in the covariance matrix (K leaves). The whole correction makes the matrix
    indefinite where there is little data, and intervals several times as wide.
    """
    Z, d = np.clip(rows.Z, rows.low, 1), rows.Z.shape[1]
    y = np.clip(rows.y, *rows.response)
    mu_tree, mu_rest = mu / np.sqrt(28), 3 * mu / np.sqrt(28)
    leaves, lows, highs = tree(Z, rows.low, mu_tree, rng)
    far = np.maximum(np.abs(lows), np.abs(highs)) / mu_rest
    count = np.rint([len(leaf) for leaf in leaves] + rng.standard_normal(len(leaves)) / mu_rest)
    S = np.array([Z[leaf].sum(axis=0) for leaf in leaves]) + far * rng.standard_normal(far.shape)
    t = np.array([y[leaf].sum() for leaf in leaves]) + rows.reach / mu_rest * rng.standard_normal(len(leaves))
    kept = count >= 2
    S, t, far, count = S[kept], t[kept], far[kept], count[kept]
    weight, K = np.sum(count) / len(y) / count, len(count)
    M, D = S.T @ (weight[:, None] * S), np.diag(weight @ far**2)
    beta = np.linalg.solve(M - D / K, S.T @ (weight * t))
    scores = weight[:, None] * (S * (t - S @ beta)[:, None] + far**2 * beta)
    bread = np.linalg.inv((M - D) / K)
    cover = rows.back @ bread @ (scores.T @ scores / (K * max(K - d, 1))) @ bread @ rows.back.T
    beta, half = rows.back @ beta, Z95 * np.sqrt(np.diag(cover))
    return np.column_stack([beta, beta - half, beta + half])


def tree(Z, low, mu, rng):
    """PrivTree (Zhang et al. 2016): the rows of every leaf, and its bounds; at least d + 1 leaves."""
    eps = np.log(stats.norm.cdf(mu / 2) / stats.norm.cdf(-mu / 2))
    noise = 3 / eps
    decay, d = noise * np.log(2), Z.shape[1]
    queue, leaves = [(np.arange(len(Z)), low.astype(float), np.ones(d), 0)], []
    while queue:
        node = queue.pop(0)
        score = max(len(node[0]) - decay * node[3], -decay)
        if score + rng.laplace(scale=noise) > 0:
            queue += split(Z, *node)
        else:
            leaves.append(node)
    while len(leaves) < d + 1:
        volume = [np.prod(np.maximum(high - low, 1e-8)) for _, low, high, _ in leaves]
        leaves += split(Z, *leaves.pop(int(np.argmax(volume))))
    return [leaf[0] for leaf in leaves], *(np.array([leaf[j] for leaf in leaves]) for j in (1, 2))


def split(Z, index, low, high, depth):
    """Both halves of a node, along its widest side."""
    j = int(np.argmax(high - low))
    middle = (low[j] + high[j]) / 2
    left = Z[index, j] < middle
    below, above = high.copy(), low.copy()
    below[j] = above[j] = middle
    return [(index[left], low, below, depth + 1), (index[~left], above, high, depth + 1)]


# DP-GD: Brown, Dvijotham, Evans, Liu, Smith & Thakurta (2024), arXiv:2402.13531 ---------------------------


def dp_gd(rows, mu, rng, burn=5):
    """Noisy clipped gradient steps; the spread of ten of the iterates, five steps apart, gives the interval.

    It runs on columns standardised by their true moments, with errors of standard deviation 1, and settings
    of the first author's public script: step 1/5, gradients clipped at ``5 sqrt(d)``, first checkpoint after
    5 steps (`burn`). The interval has Student's quantile, nine degrees of freedom, where the script has the
    normal one. It is about the least-squares fit of these rows.
    """
    m, apart, step = 10, 5, 0.2
    n, d = rows.Z.shape
    steps, clip = burn + (m - 1) * apart, 5 * np.sqrt(d)
    V, y = (rows.Z - rows.mean) / rows.scale, rows.y / rows.noise
    deviation = np.sqrt(steps) * clip / (n * mu)
    theta, path = np.zeros(d), []
    for _ in range(steps):
        g = V * (y - V @ theta)[:, None]
        g *= np.minimum(1, clip / np.maximum(np.sqrt(np.einsum("ij,ij->i", g, g)), 1e-300))[:, None]
        theta = theta + step * (g.mean(axis=0) + deviation * rng.standard_normal(d))
        path.append(theta)
    undo = np.diag(1 / rows.scale)
    undo[0] -= rows.mean / rows.scale  # zero unless there is a constant, the first column
    points = rows.noise * np.array(path[burn - 1 :: apart]) @ (rows.back @ undo).T
    estimate, variance = points.mean(axis=0), points.var(axis=0, ddof=1) / m
    half = stats.t.ppf(0.975, m - 1) * np.sqrt(variance)
    return np.column_stack([estimate, estimate - half, estimate + half])


# Parametric bootstrap: Ferrando, Wang & Sheldon (2022), arXiv:2006.07749 ------------------------------------


def ssp_bootstrap(rows, mu, rng, draws=500):
    """Noisy ``Z'Z``, ``Z'y`` and ``y'y``; percentiles of a parametric bootstrap that adds the noise again.

    A third of ``mu^2`` each, Gaussian noise (the paper has Laplace noise, which is pure but larger).
    The residual variance comes from the three; the paper's own release of it has a sensitivity that
    depends on the data. Eigenvalues and variance have the floors of the authors' script.
    """
    Z, y = np.clip(rows.Z, -1, 1), np.clip(rows.y, *rows.response) / rows.reach
    (n, d), part = Z.shape, mu / np.sqrt(3)
    upper = np.triu_indices(d)

    def noise(size):
        V = np.zeros((size, d, d))
        V[:, upper[0], upper[1]] = rng.standard_normal((size, len(upper[0]))) * np.sqrt(len(upper[0])) / part
        V += np.triu(V, 1).transpose(0, 2, 1)
        return V, rng.standard_normal((size, d)) * np.sqrt(d) / part

    (V,), (w,) = noise(1)
    A, c = Z.T @ Z + V, Z.T @ y + w
    beta = np.linalg.solve(A, c)
    total = y @ y + rng.standard_normal() / part
    variance = (total - 2 * beta @ c + beta @ A @ beta) / (n - d)
    if variance < 0:
        variance = 0.1 / 150**2
    values, vectors = np.linalg.eigh(A / n)
    Q = vectors @ np.diag(np.where(values > 0, values, 0.1 / 25)) @ vectors.T
    V, w = noise(draws)
    scores = rng.multivariate_normal(np.zeros(d), variance * Q, draws)
    again = np.linalg.solve(Q + V / n, (Q @ beta + scores / np.sqrt(n) + w / n)[:, :, None])[:, :, 0]
    scale = rows.reach * rows.back
    low, high = np.percentile(again @ scale.T, [2.5, 97.5], axis=0)
    return np.column_stack([scale @ beta, low, high])
