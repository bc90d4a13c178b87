"""What least-squares estimators report besides coefficients, from released values only."""

import numpy as np

__all__ = ["Winsorized", "left_out", "limits_in_words", "r_squared"]


class Winsorized:
    """A design whose columns are moved into released limits: what a winsorised fit predicts from.

    Parameters
    ----------
    design : Design
    low, high : (d,) arrays
    """

    def __init__(self, design, low, high):
        self.design, self.low, self.high = design, low, high

    def matrix(self, data):
        """The design matrix of new data, moved into the limits; unusable rows are NaN."""
        return np.clip(self.design.matrix(data), self.low, self.high)


def left_out(prepared, d):
    """Indices of the columns without visible variation."""
    return np.setdiff1d(np.arange(d), prepared.affine.columns)


def limits_in_words(names, prepared):
    """The limits of the winsorised columns that are in the model, as text."""
    return ", ".join(
        f"{names[j]} [{prepared.low[j]:.4g}, {prepared.high[j]:.4g}]"
        for j in prepared.affine.columns
        if np.isfinite(prepared.low[j])
    )


def r_squared(prepared, u, gram, noise, variance, intercept):
    """Explained share of the response's variance.

    Parameters
    ----------
    prepared : Prepared
    u : (q,) array
        Coefficients in whitened coordinates.
    gram : (q, q) array
        Released Gram matrix of those coordinates over the number of rows.
    noise : (q,) array
        Noise variances of `u` along orthogonal directions.
    variance : float
        Mean squared residual.
    intercept : bool

    Returns
    -------
    float
        In [0, 1).
    """
    # the noise in u explains nothing: its expected part is taken off
    explained = float(u @ gram @ u) - float(np.sum(noise))
    if intercept:
        first = np.linalg.inv(prepared.whitening.W)[:, 0]
        explained -= float(first @ gram @ u) ** 2
    explained = max(explained, 0.0)
    return explained / (explained + variance) if explained + variance > 0 else 0.0
