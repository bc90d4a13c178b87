"""The authors' own code, from a folder that is not part of this project.

BinAgg (github: Shuronglin/BinAgg, seen at 95262ec): the folder with ``src``. Parametric bootstrap (github:
ceciliaferrando/PB-DP-CIs, seen at f0d2bc6): the folder with ``DPCIs-OLS.py``.
"""

import contextlib
import importlib.util
import io
import sys
import types
from pathlib import Path

import numpy as np

__all__ = ["bootstrap_script", "package"]

SPENDS = 6
"""``DPCIs-OLS.py`` at eps is 6 eps-DP for a row added: its scales are ``sensitivity / (3 eps)``, not
``3 sensitivity / eps``, and two of the three sensitivities are those of a row replaced."""


def package(folder):
    """BinAgg's ``dp_linear_regression``, which gives no covariances: only where ``back`` is diagonal."""
    sys.path.insert(0, str(Path(folder) / "src"))
    from binagg import dp_linear_regression

    def method(rows, mu, rng):
        fit = dp_linear_regression(
            rows.Z, rows.y, [(low, 1) for low in rows.low], rows.response, mu,
            random_state=int(rng.integers(2**31)),
        )  # fmt: skip
        found = np.column_stack([fit.coefficients, fit.confidence_intervals])
        return np.diag(rows.back)[:, None] * found

    return method


def bootstrap_script(folder):
    """The hybrid bootstrap. Its noise on the residual variance has a scale that depends on the data."""
    given, sys.argv = sys.argv, ["DPCIs-OLS.py"]
    spec = importlib.util.spec_from_file_location("script", Path(folder) / "DPCIs-OLS.py")
    script = importlib.util.module_from_spec(spec)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            spec.loader.exec_module(script)  # reads the command line, and prints it
    finally:
        sys.argv = given
    script.np = types.SimpleNamespace(**vars(np))

    def method(rows, eps, rng):
        script.np.random = types.SimpleNamespace(
            # it puts arrays of one number where NumPy now wants a number
            laplace=lambda location, scale, size=None: rng.laplace(location, scale),
            multivariate_normal=rng.multivariate_normal,
        )
        n, d = rows.Z.shape
        args = types.SimpleNamespace(N=n, D=d, gamma=1.0, zeta=rows.reach, eps=eps, num_bootstraps=500)
        beta, Q, variance = script.private_OLS(rows.Z, rows.y, args)
        draws = script.hybrid_bootstrap_OLS(beta, Q, variance, args)
        low, high = np.percentile(draws @ rows.back.T, [2.5, 97.5], axis=0)
        return np.column_stack([rows.back @ beta, low, high])

    return method
