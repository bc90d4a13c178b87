import builtins
import dataclasses
import math
import sys

import numpy as np
import pandas as pd
import pytest

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

from matplotlib import pyplot as plt  # noqa: E402

import dpstats  # noqa: E402
from dpstats.errors import ParameterError  # noqa: E402
from dpstats.explore.plots import planned  # noqa: E402
from dpstats.privacy.guarantee import Guarantee  # noqa: E402
from dpstats.results.grouped import GroupedResults  # noqa: E402
from dpstats.results.inference import FixedInterval  # noqa: E402
from dpstats.results.results import PRIVACY, SAMPLING_AND_PRIVACY, Results  # noqa: E402

FIT = Results(
    method="TukeyEM", formula="price ~ carat + cut", response="price",
    names=("Intercept", "carat", "cut[T.Good]", "cut[T.Ideal]"), estimates=[-3875.0, 7871.0, 1120.0, 0.5],
    cov=np.diag([40.0, 14.0, 43.0, 39.0]) ** 2, covers=SAMPLING_AND_PRIVACY,
    guarantee=Guarantee(1, 1e-6, "add-remove", "approximate"),
    terms={"carat": slice(1, 2), "cut": slice(2, 4)},
)  # fmt: skip


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def _labels(ax):
    return [t.get_text() for t in ax.get_yticklabels()]


def _whiskers(ax):
    """(low, high) of each interval that was drawn, from top to bottom."""
    return np.array([segment[:, 0] for c in ax.collections for segment in c.get_segments()])


def _points(ax):
    filled, open_ = ax.get_lines()[1:]
    return filled.get_xdata().tolist(), open_.get_xdata().tolist()


def test_points_are_estimates_and_whiskers_are_intervals():
    ax = FIT.plot()
    assert _labels(ax) == ["carat", "cut[T.Good]", "cut[T.Ideal]"]
    assert _points(ax) == ([7871.0, 1120.0, 0.5], [])
    np.testing.assert_allclose(_whiskers(ax), FIT.conf_int().iloc[1:])
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first coefficient is on top
    assert ax.get_xlabel() == "Coefficient\n95% intervals cover sampling and privacy noise"
    assert ax.get_title() == "TukeyEM, eps = 1, delta = 1e-06"
    np.testing.assert_allclose(_whiskers(FIT.plot(alpha=0.2, intercept=True)), FIT.conf_int(0.2))


def test_a_given_axes_is_drawn_on_and_returned():
    figure, ax = plt.subplots()
    assert FIT.plot(ax) is ax
    assert plt.get_fignums() == [figure.number]


def test_terms_choose_and_order():
    assert _labels(FIT.plot(terms=["cut", "Intercept"])) == ["cut[T.Good]", "cut[T.Ideal]", "Intercept"]
    assert _labels(FIT.plot(terms="carat")) == ["carat"]
    for bad in (["depth"], []):
        with pytest.raises(ParameterError, match="terms must be"):
            FIT.plot(terms=bad)
    only = dataclasses.replace(FIT, names=("Intercept",), estimates=[1.0], cov=[[1.0]], terms={})
    with pytest.raises(ParameterError, match="intercept=True"):
        only.plot()
    assert _labels(only.plot(intercept=True)) == ["Intercept"]


def test_standardized_points_are_z_statistics():
    ax = FIT.plot(standardize=True)
    np.testing.assert_allclose(_points(ax)[0], FIT.tvalues.iloc[1:])
    np.testing.assert_allclose(np.diff(_whiskers(ax)), 2 * 1.959964, rtol=1e-6)
    assert ax.get_xlabel().startswith("Coefficient / standard error")
    privacy_only = dataclasses.replace(FIT, covers=PRIVACY).plot(standardize=True)
    np.testing.assert_allclose(_points(privacy_only)[0], FIT.tvalues.iloc[1:])


@pytest.mark.parametrize("ratios", [(0.02, 40.0), (0.4, 0.95), (0.97, 1.04), (0.99999, 1.00002)])
def test_odds_ratios_have_ticks_that_are_ratios(ratios):
    fit = dpstats.datasets.load_fit("logit")
    at = np.log(ratios)
    parts = {"estimates": np.array(at), "cov": np.diag([1e-12, 1e-12])}
    fit = dataclasses.replace(fit, **parts, root=None, bias=None, bias_root=None)
    ax = fit.plot(intercept=True, exponentiate=True)
    assert ax.get_xlabel().startswith("exp(coef)") and len(ax.get_xticks()) >= 3
    shown = [float(label.get_text()) for label in ax.get_xticklabels()]
    np.testing.assert_allclose(np.exp(ax.get_xticks()), shown, rtol=1e-3)
    with pytest.raises(ParameterError, match="exponentiate must be False of linear fits and with"):
        fit.plot(exponentiate=True, standardize=True)


def test_a_coefficient_without_an_interval_is_an_open_marker():
    cov = np.array(FIT.cov)
    cov[2, :] = cov[:, 2] = math.nan
    filled, open_ = _points(dataclasses.replace(FIT, cov=cov).plot())
    assert filled == [7871.0, 0.5] and open_ == [1120.0]
    ax = dataclasses.replace(FIT, cov=None, covers="nothing is known.").plot()
    assert _points(ax) == ([], [7871.0, 1120.0, 0.5]) and ax.get_xlabel() == "Coefficient"
    with pytest.raises(ParameterError, match="standardize must be False"):
        dataclasses.replace(FIT, cov=None, covers="nothing is known.").plot(standardize=True)


def test_intervals_for_one_confidence_only_are_drawn_at_it():
    interval = FixedInterval((-4000, 7800, 1000, -1), (-3800, 7900, 1300, 2), 0.1)
    ax = dataclasses.replace(FIT, cov=None, interval=interval).plot()
    assert _whiskers(ax).tolist() == [[7800, 7900], [1000, 1300], [-1, 2]]
    assert "90% intervals" in ax.get_xlabel()


@pytest.mark.filterwarnings("error")
def test_extreme_values_and_names_draw_without_a_warning():
    names = ("$a_1$ & <b>", "x" * 200, "y^{", "z", "w")
    odd = dataclasses.replace(
        FIT, names=names, estimates=[1e300, -1e-300, math.nan, math.inf, 0.0],
        cov=np.diag([1.0, 0.0, 1.0, 1.0, math.inf]), terms={}, guarantee=FIT.guarantee.replace(seeded=True),
    )  # fmt: skip
    for standardize in (False, True):
        ax = odd.plot(standardize=standardize)
        ax.figure.canvas.draw()
        assert _labels(ax)[0] == "$a_1$ & <b>" and max(map(len, _labels(ax))) <= 32
        assert "SEEDED: protects nobody" in ax.get_title()


MEDIAN = dataclasses.replace(
    FIT, formula="sbp ~ 1", names=("sbp[0.1]", "sbp[0.5]"), estimates=[131.0, 133.0], cov=np.eye(2), terms={}
)


def test_values_that_are_no_effects_have_no_line_at_0():
    grouped = dataclasses.replace(_grouped(), formula=MEDIAN.formula, results={"a": MEDIAN})
    for ax in (MEDIAN.plot(), grouped.plot("sbp[0.1]")):
        assert len(ax.get_lines()) == 2 and ax.get_xlim()[0] > 100
    # unless it lies among them, or the scale is that of the distance from 0
    around = dataclasses.replace(MEDIAN, estimates=[-1.0, 1.0])
    assert around.plot().get_lines()[0].get_xdata() == [0, 0]
    assert MEDIAN.plot(standardize=True).get_lines()[0].get_xdata() == [0, 0]
    assert FIT.plot(terms="cut[T.Good]").get_xlim()[0] < 0


def test_quantiles_of_tied_values_have_an_axis_that_can_be_read():
    """It was as wide as what tells their intervals from nothing, with an offset in place of the value."""
    ends = np.array([520.0, 520.0]), np.array([520.0, 520.0]) + 3e-7
    tied = dataclasses.replace(MEDIAN, cov=None, estimates=ends[0], interval=FixedInterval(*ends, 0.05))
    ax = tied.plot()
    assert ax.get_xlim() == (494, 546) and ax.get_xlabel().startswith(f"{MEDIAN.method}\n")
    far = dataclasses.replace(tied, interval=FixedInterval(ends[0], ends[1] + 1, 0.05))
    assert 519 < far.plot().get_xlim()[0] and far.plot().get_xlim()[1] < 522


def test_the_figure_grows_with_the_coefficients():
    names = tuple(f"x{i}" for i in range(60))
    tall = dataclasses.replace(FIT, names=names, estimates=np.arange(60.0), cov=np.eye(60), terms={})
    assert tall.plot().figure.get_figheight() > 3 * FIT.plot().figure.get_figheight()


def _grouped(seeded=False):
    cov = np.array(FIT.cov)
    cov[1, :] = cov[:, 1] = math.nan
    promise = FIT.guarantee.replace(seeded=seeded)
    fits = {"a": FIT, "b": dataclasses.replace(FIT, cov=cov)}
    return GroupedResults("tukey_em", FIT.formula, "g", ("a", "none", "b"), fits, {"none": "few"}, promise)


def test_groups_say_what_a_single_fit_says():
    ax = _grouped(seeded=True).plot("carat", alpha=0.1)
    assert _labels(ax) == ["a", "none (no estimate)", "b (n.d.)"]
    filled, open_ = _points(ax)
    assert filled == [7871.0] and open_[1:] == [7871.0] and math.isnan(open_[0])
    np.testing.assert_allclose(_whiskers(ax), [FIT.conf_int(0.1).loc["carat"]])
    assert ax.get_lines()[1].get_ydata().tolist() == [0] and ax.get_lines()[2].get_ydata()[1] == 2
    assert ax.get_xlabel() == "carat\n90% intervals cover sampling and privacy noise"
    title = "carat, by g\nTukeyEM, eps = 1, delta = 1e-06"
    assert ax.get_title() == title + "\nSEEDED: protects nobody"
    assert _grouped().plot("carat").get_title() == title
    bare = dataclasses.replace(_grouped(), results={"b": _grouped()["b"]})
    assert bare.plot("carat").get_xlabel() == "carat"


@pytest.mark.parametrize("name", ["intercept", "standardize"])
def test_flags_are_checked(name):
    with pytest.raises(ParameterError, match=f"{name} must be True or False"):
        FIT.plot(**{name: 1})


def test_without_matplotlib_the_error_names_the_extra(monkeypatch):
    real = builtins.__import__

    def absent(name, *args, **kwargs):
        if name.split(".")[0] == "matplotlib":
            raise ImportError("not here")
        return real(name, *args, **kwargs)

    for module in [m for m in sys.modules if m.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(ImportError, match=r"pip install 'dpstats\[plot\]'"):
        FIT.plot()
    with pytest.raises(ImportError, match=r"pip install 'dpstats\[plot\]'"):
        planned(pd.DataFrame(), None, y="se", x=None, terms=None)
