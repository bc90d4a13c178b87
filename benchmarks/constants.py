"""Figures of ``docs/privacy`` that are computed, not measured: writes ``constants.csv`` beside this file.

python benchmarks/constants.py      (half a minute)
"""

import math
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import gammainccinv

from dpstats.depth import l1_diameter as diameter
from dpstats.depth import plane_contours, plane_median
from dpstats.mechanisms import calibration
from dpstats.mechanisms import smooth_sensitivity as smooth
from dpstats.mechanisms.line_depths import LineDepths
from dpstats.mechanisms.rounds import per_round
from dpstats.privacy.conversions import zcdp_rho

RESULTS = Path(__file__).with_name("constants.csv")
SAMPLES = 40


def nissim(eps, delta, d=1):
    """The ``(alpha, beta)`` of Nissim, Raskhodnikova and Smith (2007)."""
    if d == 1:
        return eps / 2, eps / (2 * math.log(2 / delta))
    return eps / 2, eps / (4 * (d + math.log(2 / delta)))


def cumings_menon(eps, delta, d=1):
    """The ``(alpha, beta)`` of Cumings-Menon (2022, Theorem 2).

    ``beta = eps / (2 Q)`` with ``Q`` the ``1 - delta`` quantile of the sum of ``d`` standard exponentials.
    """
    return eps / 2, eps / (2 * float(gammainccinv(d, delta)))


def gains():
    """``alpha beta`` in one dimension over that of Nissim et al., delta = 1e-6."""
    for eps in (0.5, 1.0, 2.0, 4.0, 12.0):
        yield (
            f"gain over nissim, eps = {eps:g}",
            math.prod(calibration.calibrate(eps, 1e-6)) / math.prod(nissim(eps, 1e-6)),
        )


def box_noise():
    """Noise scale of the deepest line of 100 normal rows in a box of +-1,000, eps = 4, delta = 1e-6: median
    over samples."""
    rng = np.random.default_rng(20261121)
    samples = [LineDepths.of(x, x + rng.standard_normal(100)) for x in rng.standard_normal((SAMPLES, 100))]
    box = np.array([[-1000.0, 1000.0]] * 2)
    pairs = {
        "tuned": smooth.tuned(4.0, 1e-6, 2, 100, 1 / 3),
        "calibrate": calibration.calibrate(4.0, 1e-6, 2),
        "cumings_menon": cumings_menon(4.0, 1e-6, 2),
    }
    for name, (alpha, beta) in pairs.items():
        scales = [lines.smooth_bound(box, beta) / alpha for lines in samples]
        yield f"deepest_regression noise, {name}", np.median(scales)


def rounds():
    """Budget of a round of an exponential mechanism over ``eps / k``, eps = 1, delta = 1e-6: exact, and by
    zCDP alone."""
    for k in (5, 10, 50):
        yield f"round, exact, k = {k}", k * per_round(1.0, 1e-6, k)
        yield f"round, zcdp, k = {k}", k * math.sqrt(8 * zcdp_rho(1.0, 1e-6) / k)


def polygons():
    """The l1 diameter of the set of depth q - j over the bound by order statistics: normal plane, n = 500,
    mean over samples."""
    rng, ratios = np.random.default_rng(20261121), []
    for Z in rng.standard_normal((SAMPLES, 500, 2)):
        _, deepest = plane_median(Z)
        tau = deepest - np.array([0, 4, 10, 40])
        exact = [diameter(polygon) for polygon in plane_contours(Z, tau)]
        along = np.sort([Z[:, 0] + Z[:, 1], Z[:, 0] - Z[:, 1]], axis=1)
        ratios.append(exact / (along[:, 500 - tau] - along[:, tau - 1]).max(axis=0))
    for j, ratio in zip((0, 4, 10, 40), np.mean(ratios, axis=0), strict=True):
        yield f"polygon over order statistics, depth q - {j}", ratio


def main():
    """Write the table."""
    rows = [row for part in (gains, box_noise, rounds, polygons) for row in part()]
    pd.DataFrame(rows, columns=["what", "value"]).to_csv(RESULTS, index=False, float_format="%.5g")
    print(RESULTS.read_text())


if __name__ == "__main__":
    main()
