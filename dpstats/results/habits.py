"""What statistics packages call things: the spellings of statsmodels, over released values."""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np

from dpstats._boundary import guarded
from dpstats._text import Summary
from dpstats._validation import fail
from dpstats.errors import NotReleased
from dpstats.results.withheld import not_released

__all__ = ["Habits", "ModelNames", "Saved", "fixed"]

T = TypeVar("T")

_DATA = "data endog exog frame weights wendog wexog pinv_wexog".split()
_VERBS = "fit fit_regularized predict hessian hessian_factor information loglike score whiten rank".split()


@dataclass(frozen=True)
class ModelNames:
    """The names of a model, as ``fit.model`` has them in statsmodels; it holds no data.

    Attributes
    ----------
    endog_names : str
        Of the response.
    exog_names : list of str
        Of the columns.
    formula : str

    Examples
    --------
    >>> ModelNames("price", ["Intercept", "carat"], "price ~ carat").endog_names
    'price'
    """

    endog_names: str
    exog_names: list[str]
    formula: str

    if not TYPE_CHECKING:  # so that a type checker reports attributes that do not exist

        def __getattr__(self, name: str) -> NoReturn:
            if name in _DATA:
                raise NotReleased(f"'model.{name}' would hold the private data; a result keeps none.")
            if name in _VERBS:
                raise NotReleased(f"'model.{name}' needs the private data, which a result does not keep.")
            raise AttributeError(f"'ModelNames' object has no attribute {name!r}")


def fixed(cls: type[T]) -> type[T]:
    """A frozen class with slots whose error for ``fit.foo = 1`` is a sentence."""

    def refuse(self: object, name: str, *value: object) -> NoReturn:
        raise FrozenInstanceError(f"a result is fixed: {name!r} cannot be set; keep it beside the result.")

    for method in ("__setattr__", "__delattr__"):
        setattr(cls, method, refuse)
    return cls


class Saved:
    """What can be written to a file: results, and groups of them."""

    __slots__ = ()

    if TYPE_CHECKING:

        def to_dict(self) -> dict[str, Any]: ...

    @guarded
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result to a file, as JSON: :func:`dpstats.load` reads it.

        Parameters
        ----------
        path : str or path-like
            Is replaced if it exists.

        Raises
        ------
        ParameterError
            If `path` is no file name.

        Examples
        --------
        >>> import os
        >>> import tempfile
        >>> import dpstats
        >>> fit = dpstats.datasets.load_fit()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     fit.save(os.path.join(folder, "fit.json"))
        ...     dpstats.load(os.path.join(folder, "fit.json")).params.round(1).to_dict()["carat"]
        7917.2
        """
        if not isinstance(path, str | os.PathLike):
            fail("path", path, "a file name")
        text = json.dumps(self.to_dict(), allow_nan=False)  # before a file that is there is gone
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


class Habits(Saved):
    """Spellings of statsmodels: what :class:`~dpstats.results.results.Results` inherits, over its fields."""

    __slots__ = ()
    names: tuple[str, ...]
    formula: str
    response: str | None
    released: Mapping[str, float]
    df: float | None

    if TYPE_CHECKING:

        def summary(self, alpha: float | None = None) -> Summary: ...
        def f_test(self, terms: Any = None) -> Any: ...

    @property
    def model(self) -> ModelNames:
        """The names of response and columns, for tables of several fits; there is no data in it."""
        return ModelNames(
            self.response or self.formula.partition("~")[0].strip(), list(self.names), self.formula
        )

    @property
    def use_t(self) -> bool:
        """Whether tests and intervals are those of Student's t; else of the normal distribution."""
        return self.df is not None

    @property
    def df_model(self) -> float:
        """Number of coefficients but the constant."""
        return float(len(self.names) - ("Intercept" in self.names))

    @property
    def k_constant(self) -> int:
        """Whether there is a constant, as 0 or 1."""
        return int("Intercept" in self.names)

    @property
    def df_resid(self) -> float:
        """Released number of rows less the number of coefficients."""
        return self._rows("df_resid") - len(self.names)

    @property
    def rsquared_adj(self) -> float:
        """R-squared with the usual correction for the number of coefficients, from what was released."""
        if "rsquared" not in self.released:
            raise not_released("rsquared_adj")
        n, d = self._rows("rsquared_adj"), len(self.names)
        return 1 - (1 - self.released["rsquared"]) * (n - 1) / (n - d) if n > d else math.nan

    @property
    def fvalue(self) -> float:
        """The Wald statistic of all coefficients but the constant, over their number; see :meth:`f_test`.

        NaN where there is none, as in statsmodels.
        """
        if not self.df_model:
            return math.nan
        test = self.f_test()
        return float(np.squeeze(test.statistic)) / (1.0 if self.use_t else float(test.df_denom))

    @property
    def f_pvalue(self) -> float:
        """The p-value of :meth:`f_test`; NaN where there is none."""
        if not self.df_model:
            return math.nan
        return float(np.squeeze(self.f_test().pvalue))

    def _rows(self, name: str) -> float:
        rows = self.released.get("nobs", self.released.get("n"))
        if rows is None:
            raise not_released(name)
        return rows

    def summary2(self, alpha: float | None = None) -> Summary:
        """The same as :meth:`summary`.

        Parameters
        ----------
        alpha : float in (0, 1), optional
            One minus the confidence of the intervals.

        Returns
        -------
        dpstats._text.Summary

        Raises
        ------
        ParameterError
            As of :meth:`summary`.

        Examples
        --------
        >>> import dpstats
        >>> fit = dpstats.datasets.load_fit()
        >>> print("\\n".join(fit.summary2().as_text().splitlines()[:6]))
                             Private OLS (differentially private)
        ==============================================================================
        Formula: price ~ carat + cut
        Dep. variable:                  price    Residual std. dev.:              1456
        Rows (noisy):                  53,943    R-squared:                     0.8649
        Rounds:                            10    Covariance type:               robust
        """
        return self.summary(alpha)

    def remove_data(self) -> None:
        """Do nothing: a result holds no data.

        Examples
        --------
        >>> import dpstats
        >>> fit = dpstats.datasets.load_fit()
        >>> fit.remove_data()
        >>> round(fit.rsquared, 2)
        0.86
        """
