"""What can be asked of the fits of many groups at once: a mapping's manners, tests, predictions, a plot."""

from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from dpstats._boundary import guarded
from dpstats._validation import fail, shown
from dpstats.errors import NotReleased, SchemaError
from dpstats.privacy.guarantee import Guarantee
from dpstats.results.habits import Saved
from dpstats.results.withheld import WITHHELD, not_released

if TYPE_CHECKING:
    from dpstats.results.results import Results

__all__ = ["Many"]


class Many(Saved):
    """Verbs of a :class:`~dpstats.results.grouped.GroupedResults`, over its fields."""

    __slots__ = ()
    by: str
    levels: tuple[Any, ...]
    results: Mapping[Any, "Results"]
    guarantee: Guarantee

    if TYPE_CHECKING:

        @property
        def names(self) -> tuple[str, ...]: ...

    else:  # so that a type checker reports attributes that do not exist

        def __getattr__(self, name: str) -> NoReturn:
            level, one = next(iter(self.__dict__.get("results", {}).items()), ("level", None))
            if not name.startswith("_") and hasattr(type(one), name):
                text = f"{name!r} is of one fit: take that of a group, as in fits[{shown(level)}].{name}"
                text += ", with the rows of that group" * (name == "diagnose")
                raise AttributeError(text)
            if name in WITHHELD:
                raise not_released(name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def _beside(self) -> bool:
        """Whether groups are columns of one table, as descriptions are."""
        return any(getattr(result, "side_by_side", False) for result in self.results.values())

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.results)

    def __contains__(self, level: object) -> bool:
        return level in self.results

    def keys(self) -> list[Any]:
        """The groups that have results, in their order; `levels` has all, and `failed` the others.

        Returns
        -------
        list

        Examples
        --------
        >>> import dpstats
        >>> fits = dpstats.datasets.load_fit("groups")
        >>> fits.keys()
        ['Fair', 'Good', 'Very Good', 'Premium', 'Ideal']
        """
        return list(self.results)

    def values(self) -> ValuesView[Any]:
        """The results of these groups.

        Returns
        -------
        view of Results

        Examples
        --------
        >>> import dpstats
        >>> fits = dpstats.datasets.load_fit("groups")
        >>> [float(fit.params["carat"].round()) for fit in fits.values()]
        [5972.0, 7217.0, 7968.0, 7826.0, 8253.0]
        """
        return self.results.values()

    def items(self) -> ItemsView[Any, Any]:
        """Pairs of group and results.

        Returns
        -------
        view of (group, Results)

        Examples
        --------
        >>> import dpstats
        >>> fits = dpstats.datasets.load_fit("groups")
        >>> {cut: float(fit.bse["carat"].round()) for cut, fit in fits.items()}
        {'Fair': 531.0, 'Good': 639.0, 'Very Good': 99.0, 'Premium': 90.0, 'Ideal': 55.0}
        """
        return self.results.items()

    def get(self, level: Any, default: Any = None) -> Any:
        """The results of a group, or something else for one that has none.

        Parameters
        ----------
        level : str, number or bool
            A declared group.
        default : object, optional
            What comes back for a group without results, and for what is no group.

        Returns
        -------
        Results, or `default`

        Examples
        --------
        >>> import dpstats
        >>> fits = dpstats.datasets.load_fit("groups")
        >>> fits.get("Ideal").params.round().to_dict(), fits.get("no group")
        ({'Intercept': -2367.0, 'carat': 8253.0}, None)
        """
        return self.results.get(level, default)

    @property
    def bse(self) -> pd.DataFrame:
        """Standard errors, a DataFrame with a row for each group; NaN where there is none."""
        return self._of_all("bse")

    @property
    def tvalues(self) -> pd.DataFrame:
        """Estimates over standard errors, likewise."""
        return self._of_all("tvalues")

    @property
    def pvalues(self) -> pd.DataFrame:
        """Two-sided p-values of the hypotheses that a coefficient is 0, likewise."""
        return self._of_all("pvalues")

    def _of_all(self, name: str) -> pd.DataFrame:
        index = pd.Index(list(self.levels), name=self.by)
        frame = pd.DataFrame(np.nan, index=index, columns=list(self.names))
        for level, result in self.results.items():
            frame.loc[level] = getattr(result, name).reindex(frame.columns)
        return frame

    @guarded
    def conf_int(self, alpha: float | None = None) -> pd.DataFrame:
        """Intervals, a row for each group and coefficient; of the groups that have results.

        Parameters
        ----------
        alpha : float in (0, 1), optional
            One minus the confidence.

        Returns
        -------
        DataFrame
            Columns 0 (lower) and 1 (upper).

        Raises
        ------
        ParameterError
            If `alpha` is out of range.

        Examples
        --------
        >>> import dpstats
        >>> fits = dpstats.datasets.load_fit("groups")
        >>> fits.conf_int().loc["Ideal"].round()
                        0       1
        term
        Intercept -2473.0 -2260.0
        carat      8145.0  8361.0
        """
        return self._stacked({level: result.conf_int(alpha) for level, result in self._with("conf_int")})

    @guarded
    def glance(self) -> pd.DataFrame:
        """One row for each group that has results: :meth:`Results.glance`.

        Returns
        -------
        DataFrame
            With the groups as its index.

        Examples
        --------
        >>> import dpstats
        >>> fits = dpstats.datasets.load_fit("groups")
        >>> fits.glance()[["r.squared", "nobs"]].round(2)
                   r.squared      nobs
        cut
        Fair            0.76   1658.92
        Good            0.86   4925.72
        Very Good       0.86  12132.85
        Premium         0.87  13749.34
        Ideal           0.87  21540.01
        """
        found = self._stacked({level: result.glance() for level, result in self._with("glance")})
        return found.droplevel(1) if len(found) else found

    @guarded
    def t_test(self, r_matrix: Any) -> pd.DataFrame:
        """Tests of linear hypotheses, one at a time, in every group that has results.

        Parameters
        ----------
        r_matrix : str, sequence of str, or array
            As of :meth:`Results.t_test`.

        Returns
        -------
        DataFrame
            Effect, standard error, statistic, p-value and interval, a row for each group and hypothesis.

        Raises
        ------
        NotReleased
            If the standard errors of a group do not cover the sampling variation.
        ParameterError
            If the hypothesis cannot be read.

        Examples
        --------
        >>> import dpstats
        >>> fits = dpstats.datasets.load_fit("groups")
        >>> fits.t_test("carat = 8000")[["coef", "std err", "P>|z|"]].round(3)
                                    coef  std err  P>|z|
        cut       term
        Fair      carat = 8000  5972.427  531.336  0.000
        Good      carat = 8000  7217.352  638.743  0.220
        Very Good carat = 8000  7967.919   98.728  0.745
        Premium   carat = 8000  7825.774   89.930  0.053
        Ideal     carat = 8000  8252.794   55.158  0.000
        """
        tables = {}
        for level, result in self._with("t_test"):
            test = result.t_test(r_matrix)
            tables[level] = test.summary_frame()
        return self._stacked(tables)

    @guarded
    def wald_test(self, r_matrix: Any) -> pd.DataFrame:
        """The joint Wald test of linear hypotheses in every group that has results.

        Parameters
        ----------
        r_matrix : str, sequence of str, or array
            As of :meth:`Results.wald_test`.

        Returns
        -------
        DataFrame
            Columns ``statistic, pvalue``, a row for each group.

        Raises
        ------
        NotReleased
            If the standard errors of a group do not cover the sampling variation, or the hypothesis is about
            a coefficient that is not determined there.
        ParameterError
            If the hypothesis cannot be read.

        Examples
        --------
        >>> import dpstats
        >>> fits = dpstats.datasets.load_fit("groups")
        >>> fits.wald_test("carat = 8000").round(3)
                   statistic  pvalue
        cut
        Fair          14.562   0.000
        Good           1.501   0.220
        Very Good      0.106   0.745
        Premium        3.753   0.053
        Ideal         21.005   0.000
        """
        rows = {}
        for level, result in self._with("wald_test"):
            test = result.wald_test(r_matrix)
            rows[level] = {"statistic": float(np.squeeze(test.statistic)), "pvalue": float(test.pvalue)}
        frame = pd.DataFrame.from_dict(rows, orient="index", columns=["statistic", "pvalue"])
        frame.index.name = self.by
        return frame

    @guarded
    def predict(
        self,
        data: Any,
        which: str | None = None,
        offset: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
    ) -> pd.Series:
        """Predictions for new rows, each by the fit of its group.

        Parameters
        ----------
        data : DataFrame
            The columns on the right-hand side of the formula, and that of the groups.
        which, offset, exposure : optional
            As of :meth:`GLMResults.predict`, for fits of ``logit`` and ``poisson``; one number, or one for
            each row of `data`.

        Returns
        -------
        Series
            With the index of `data`; NaN for rows of a group without a fit.

        Raises
        ------
        ParameterError
            If `data` is no pandas DataFrame, or has no column of the groups; as the fits' own; or if one of
            the others is given and the fits have no link.

        Examples
        --------
        >>> import dpstats
        >>> import pandas as pd
        >>> fits = dpstats.datasets.load_fit("groups")
        >>> fits.predict(pd.DataFrame({"carat": [1.0, 1.0], "cut": ["Fair", "Ideal"]})).round()
        0    4235.0
        1    5886.0
        dtype: float64
        """
        if not isinstance(data, pd.DataFrame):
            fail("data", data, f"a pandas DataFrame with the column {self.by!r}")
        if self.by not in data.columns:
            raise SchemaError(f"the data have no column {self.by!r}, which says which group a row is of.")
        asked: dict[str, Any] = {"which": which, "offset": offset, "exposure": exposure}
        given = {name: value for name, value in asked.items() if value is not None}
        for name, value in given.items():
            if not all(hasattr(result, "link") for result in self.results.values()):
                fail(name, value, "left out for fits without a link")
            if np.shape(value) not in ((), (len(data),)):
                fail(name, value, f"one number, or a list of one for each of the {len(data):,} rows")
        found = pd.Series(np.nan, index=data.index, dtype=float)
        for level, result in self._with("predict"):
            rows = np.flatnonzero((data[self.by] == level).to_numpy(dtype=bool, na_value=False))
            if len(rows):
                own = {name: np.asarray(v)[rows] if np.ndim(v) else v for name, v in given.items()}
                predict: Any = result.predict
                found.iloc[rows] = np.asarray(predict(data.iloc[rows], **own), float)
        return found

    @guarded
    def plot(self, term: str | None = None, ax: Any = None, *, alpha: float | None = None) -> Any:
        """One coefficient of all groups, one below the other, with its intervals.

        A group that does not determine it has ``n.d.`` after its name, and an open marker if it has an
        estimate.

        Parameters
        ----------
        term : str, optional
            Which coefficient, by default the last.
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default a new figure.
        alpha : float in (0, 1), optional
            One minus the confidence of the intervals.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ParameterError
            If there is no such coefficient, or no group has results; or as of :meth:`conf_int`.

        Examples
        --------
        >>> import dpstats
        >>> ax = dpstats.datasets.load_fit("groups").plot("carat")
        >>> [label.get_text() for label in ax.get_yticklabels()]
        ['Fair', 'Good', 'Very Good', 'Premium', 'Ideal']
        """
        from dpstats.results.plots import groups

        if self._beside:
            raise NotReleased("A plot of descriptions is of one group: found[group].plot().")
        self._with("conf_int")
        return groups(self, term, ax, alpha=alpha)

    def _with(self, verb: str) -> ItemsView[Any, Any]:
        """The results by group, which must have such a method: descriptions have none of fits."""
        for result in self.results.values():
            if not hasattr(result, verb):
                what = type(result).__name__.lower()
                raise NotReleased(f"A {what} has no {verb}(): tidy() and summary() have its numbers.")
        return self.results.items()

    def _stacked(self, tables: dict[Any, pd.DataFrame]) -> pd.DataFrame:
        if not tables:
            return pd.DataFrame()
        return pd.concat(list(tables.values()), keys=list(tables), names=[self.by, "term"])
