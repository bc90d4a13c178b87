"""What least-squares estimators report besides coefficients, from released values only."""

import math

import numpy as np

from dpstats.results import SAMPLING_AND_PRIVACY, Results

__all__ = ["Winsorized", "r_squared", "regression_results"]


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


def regression_results(
    method, design, guarantee, prepared, u, cov, noise, gram, variance, *, winsorized, rounds=None, sigma=None, notes=()
):
    """The Results of a linear fit in whitened coordinates.

    Parameters
    ----------
    method : str
    design : Design
    guarantee : Guarantee
    prepared : Prepared
    u : (q,) array
        Coefficients in whitened coordinates, for the standardised response.
    cov : (q, q) array or None
        Their covariance, sampling and privacy noise together; None without any.
    noise : float
        What the noise in `u` adds to ``u' gram u``, in expectation.
    gram : (q, q) array
        Released Gram matrix of the whitened coordinates over the number of rows.
    variance : float or None
        Released mean squared residual, in standardised units.
    winsorized : bool
        Whether the fit, and hence predictions, use columns moved into their private ranges.
    rounds : int, optional
    sigma : float, optional
        Residual scale in standardised units, if it is not the root of `variance`.
    notes : sequence of str

    Returns
    -------
    Results
    """
    d = len(design.column_names)
    scale, shift = float(prepared.response.scale[0]), float(prepared.response.loc[0])
    back = scale * prepared.to_units(d, design.has_intercept)
    estimates = back @ u
    if design.has_intercept:
        estimates[0] += shift
    missing = np.setdiff1d(np.arange(d), prepared.affine.columns)
    notes = list(notes)
    if len(missing):
        names = ", ".join(design.column_names[j] for j in missing)
        notes.append(f"Left out, no variation beyond the privacy noise: {names}.")
    clipped = _limits_in_words(design.column_names, prepared) if winsorized else ""
    if clipped:
        notes.append(f"Moved into these limits, in the fit and in predict(): {clipped}.")
    released = {"n": prepared.count}
    if prepared.flat_response:
        covers = "The response shows no variation beyond the privacy noise, so only its location is given."
        cov = None
    else:
        covers = SAMPLING_AND_PRIVACY if cov is not None else "This estimator has no standard errors."
        if rounds is not None:
            released["rounds"] = rounds
        if sigma is not None:
            released["sigma"] = scale * sigma
        if variance is not None:
            released["sigma"] = scale * math.sqrt(variance)
            released["rsquared"] = r_squared(prepared, u, gram, noise, variance, design.has_intercept)
    if cov is not None:
        cov = back @ cov @ back.T
        cov[missing] = cov[:, missing] = np.nan
    return Results(
        method=method,
        formula=design.formula,
        response=design.response_names[0],
        names=design.column_names,
        estimates=estimates,
        cov=cov,
        covers=covers,
        guarantee=guarantee,
        released=released,
        notes=tuple(notes),
        terms=dict(design.term_slices),
        design=Winsorized(design, prepared.low, prepared.high) if winsorized else design,
    )


def _limits_in_words(names, prepared):
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
    noise : float
        What the noise in `u` adds to ``u' gram u``, in expectation.
    variance : float
        Mean squared residual.
    intercept : bool

    Returns
    -------
    float
        In [0, 1).
    """
    # the noise in u explains nothing: its expected part is taken off
    explained = float(u @ gram @ u) - noise
    if intercept:
        first = np.linalg.inv(prepared.whitening.W)[:, 0]
        explained -= float(first @ gram @ u) ** 2
    explained = max(explained, 0.0)
    return explained / (explained + variance) if explained + variance > 0 else 0.0
