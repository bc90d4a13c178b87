"""Exact halfspace and regression depth, their medians and contours. Not private: tools for looking at data.

Depths are integer counts. The public functions:

- :func:`halfspace`, :func:`regression`: depth of points and of fits;
- :func:`tukey_median`, :func:`deepest_regression`, :func:`medsweep`: the deepest, or nearly;
- :func:`contours`, :func:`plot_contours`: depth regions in the plane;
- :func:`vertices`: every line through two observations, with its depth.

For private estimators, which need exact answers for doubles as they are and no errors or warnings that depend
on data: :func:`regression_levels`, :func:`plane_contours`, :func:`plane_median`, :func:`l1_diameter`,
:func:`directions`.

Everything is imported and compiled on first use; compiled kernels are kept beside the package, or in the
user's cache.
"""

import importlib

_PUBLIC = {
    "DeepestRegression": "_deepest",
    "Medsweep": "_medsweep",
    "RegressionLevels": "_deepest",
    "TukeyMedian": "_tukey",
    "centroid": "_contours",
    "contours": "_contours",
    "deepest_regression": "_deepest",
    "directions": "_directions",
    "halfspace": "_halfspace",
    "l1_diameter": "_contours",
    "medsweep": "_medsweep",
    "plane_contours": "_contours",
    "plane_median": "_contours",
    "plot_contours": "_plot",
    "regression": "_regression",
    "regression_levels": "_deepest",
    "tukey_median": "_tukey",
    "vertices": "_deepest",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name):
    if name not in _PUBLIC:
        raise AttributeError(f"module 'dpstats.depth' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"dpstats.depth.{_PUBLIC[name]}"), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *__all__})
