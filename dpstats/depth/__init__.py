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
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpstats.depth._contours import centroid as centroid
    from dpstats.depth._contours import contours as contours
    from dpstats.depth._contours import l1_diameter as l1_diameter
    from dpstats.depth._contours import plane_contours as plane_contours
    from dpstats.depth._contours import plane_median as plane_median
    from dpstats.depth._deepest import DeepestRegression as DeepestRegression
    from dpstats.depth._deepest import RegressionLevels as RegressionLevels
    from dpstats.depth._deepest import deepest_regression as deepest_regression
    from dpstats.depth._deepest import regression_levels as regression_levels
    from dpstats.depth._deepest import vertices as vertices
    from dpstats.depth._directions import directions as directions
    from dpstats.depth._halfspace import halfspace as halfspace
    from dpstats.depth._medsweep import Medsweep as Medsweep
    from dpstats.depth._medsweep import medsweep as medsweep
    from dpstats.depth._plot import plot_contours as plot_contours
    from dpstats.depth._regression import regression as regression
    from dpstats.depth._tukey import TukeyMedian as TukeyMedian
    from dpstats.depth._tukey import tukey_median as tukey_median

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


if not TYPE_CHECKING:  # so that a type checker reports names that do not exist

    def __getattr__(name: str) -> Any:
        if name not in _PUBLIC:
            raise AttributeError(f"module 'dpstats.depth' has no attribute {name!r}")
        value = getattr(importlib.import_module(f"dpstats.depth.{_PUBLIC[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
