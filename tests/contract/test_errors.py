"""Exceptions carry no rows: not in their text, not in what they are chained to, not in the frames of their
traceback."""

import errno
import gc
import inspect
import os
import traceback
import types
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpstats
from dpstats._boundary import DEBUG, guarded
from dpstats._estimators import ESTIMATORS
from dpstats.estimation import groups as _groups
from dpstats.privacy.guarantee import Spend
from dpstats.regression import noisy_stats as noisy_stats_module
from dpstats.regression import ols as ols_module
from dpstats.regression import tukey_em as tukey_em_module
from dpstats.results.inference import FixedInterval
from dpstats.results.results import PRIVACY, SAMPLING_AND_PRIVACY, Results

ROOT = str(Path(dpstats.__file__).parent)
TEXT, NUMBER = "SENTINEL-ROW", 918273.645
# of object dtype, so that the search through references finds the text
ROWS = pd.DataFrame({
    "x": [NUMBER, 1.0, 2.0, 0.5], "y": [3.0, NUMBER, 4.0, 1.0], "z": [1.0, 0.0, NUMBER, 2.0],
    "g": pd.Series([TEXT, "b", "c", "b"], dtype=object),
})  # fmt: skip
MISPLACED = {
    "a column": ROWS["x"],
    "a column of text": ROWS["g"],
    "a frame": ROWS,
    "an index": pd.Index(ROWS["g"]),
    "an array": ROWS["x"].to_numpy(),
    "a matrix": ROWS[["x", "y"]].to_numpy(),
    "objects": ROWS["g"].to_numpy(dtype=object),
    "a record": ROWS.to_records()[0],
    "an array without axes": np.array(NUMBER),
    "a list": [NUMBER, 1.0],
    "a list of text": [TEXT],
    "a tuple": (NUMBER, TEXT),
    "a set": {TEXT},
    "a dictionary": {"x": NUMBER, "y": TEXT},
    "a dictionary of columns": {"x": ROWS["x"], "g": ROWS["g"]},
    "a long text": TEXT * 10,
    "bytes": TEXT.encode(),
}
FUNCTIONS = {name: (listed.formula, listed.own) for name, listed in ESTIMATORS.items()}
# these take no private rows
PUBLIC = {"plan", "split"}
# what is no mistake: these are values of that parameter
ALLOWED = {
    ("data", "a frame"),
    ("data", "a dictionary of columns"),
    ("levels", "a dictionary of columns"),
    ("at", "a list"),
    ("formula", "a long text"),
    ("predict", "a frame"),
    ("predict", "a dictionary of columns"),
    ("get_prediction", "a frame"),
    ("get_prediction", "a dictionary of columns"),
    ("t_test", "a matrix"),
    ("t_test", "a list"),
    ("wald_test", "a matrix"),
    ("wald_test", "a list"),
    ("f_test", "a matrix"),
    ("f_test", "a list"),
}


@pytest.fixture(autouse=True)
def as_users_see_them(monkeypatch):
    monkeypatch.delenv(DEBUG, raising=False)


def raised(call):
    """The exception of a call, warnings being errors; None if there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            call()
        except BaseException as error:
            return error
    return None


def texts(error):
    """Everything that a traceback prints, and the texts of all that the exception is chained to."""
    yield "".join(traceback.format_exception(error))
    waiting, seen = [error], set()
    while waiting:
        e = waiting.pop()
        if e is None or id(e) in seen:
            continue
        seen.add(id(e))
        yield from (str(e), repr(e), repr(e.args), *map(str, getattr(e, "__notes__", ())))
        waiting += [e.__cause__, e.__context__]


def quotes_rows(error):
    return any(TEXT in text or "918273" in text or "9.182" in text for text in texts(error))


def is_row(thing):
    if isinstance(thing, str | bytes):
        return TEXT in (thing if isinstance(thing, str) else thing.decode("latin1"))
    if isinstance(thing, np.ndarray):
        if thing.dtype.kind == "f":
            return bool((thing == NUMBER).any())
        return thing.dtype.kind == "O" and any(item is not thing and is_row(item) for item in thing.ravel())
    return isinstance(thing, float) and thing == NUMBER


def reaches_rows(error):
    """Whether rows can be reached from an exception, through anything but the frames and modules of
    others."""
    waiting, seen = [error], set()
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, types.ModuleType | type):
            continue
        if isinstance(thing, dict) and "__builtins__" in thing:
            continue
        if isinstance(thing, types.FrameType) and not thing.f_code.co_filename.startswith(ROOT):
            continue
        if is_row(thing):
            return True
        if isinstance(thing, types.FrameType):
            waiting += thing.f_locals.values()
        waiting += gc.get_referents(thing)
    return False


def check(error, *, kinds=(dpstats.DpstatsError,), traceback=True):
    assert isinstance(error, kinds), repr(error)
    assert not quotes_rows(error), str(error)
    if not traceback:
        return
    assert error.__cause__ is None and error.__context__ is None
    assert not reaches_rows(error)


def run(name, **changes):
    formula, own = FUNCTIONS[name]
    return getattr(dpstats, name)(
        **{"formula": formula, "data": ROWS, "eps": 1.0, "seed": 1, **own, **changes}
    )


def test_the_searches_find_rows():
    def careless(data):
        raise ValueError("nothing to see")

    assert reaches_rows(raised(lambda: dpstats.ols.__wrapped__("y ~ x", ROWS, eps=-1.0)))
    # frames of the caller are not searched
    assert not reaches_rows(raised(lambda: careless(ROWS)))
    assert quotes_rows(raised(lambda: int(TEXT)))
    assert (
        reaches_rows(ValueError(ROWS))
        and reaches_rows(ValueError(ROWS["g"]))
        and reaches_rows(ValueError([NUMBER]))
    )


def test_every_function_is_here():
    functions = {name for name in dpstats.__all__ if inspect.isfunction(getattr(dpstats, name))}
    # what takes no formula takes results, or a budget and no rows
    takes_rows = {n for n in functions if "formula" in inspect.signature(getattr(dpstats, n)).parameters}
    assert takes_rows - PUBLIC == set(FUNCTIONS)
    assert not any("data" in inspect.signature(getattr(dpstats, name)).parameters for name in PUBLIC)


# -- texts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_misplaced_argument_is_not_quoted(name):
    silent = set()
    for parameter in inspect.signature(getattr(dpstats, name)).parameters:
        for what, value in MISPLACED.items():
            if (parameter, what) in ALLOWED:
                continue
            error = raised(lambda parameter=parameter, value=value: run(name, **{parameter: value}))
            if error is None:
                silent.add((parameter, what))
                continue
            check(error)
            assert "does not know" not in str(error), (parameter, what)
    assert not silent


def test_allowed_values_do_not_quote_rows_either():
    # levels of a column that are its rows, and data that no formula fits
    for changes in ({"levels": {"g": ROWS["g"]}, "formula": "y ~ g"}, {"formula": "y ~ nothing"}):
        check(raised(lambda changes=changes: run("ols", **changes)))


@pytest.mark.parametrize("value", [ROWS["g"], ROWS, [TEXT]], ids=["column", "frame", "list"])
def test_a_formula_is_text(value):
    error = raised(lambda: dpstats.ols(value, ROWS, eps=1))
    check(error, kinds=dpstats.FormulaError)
    assert str(error).startswith(
        f"the formula must be a string such as 'y ~ x1 + x2', got {type(value).__name__}."
    )


def test_swapped_arguments_are_told_apart():
    error = raised(lambda: dpstats.ols(ROWS, "y ~ x", eps=1))
    check(error, kinds=dpstats.FormulaError)
    assert "It comes first, then the data" in str(error)


def test_data_given_for_their_path_are_not_quoted():
    for text in (f"x,y\n{NUMBER},1", f"{TEXT} " * 20):
        error = raised(lambda text=text: dpstats.ols("y ~ x", text, eps=1))
        check(error, kinds=dpstats.SchemaError)


def test_a_short_scalar_is_quoted():
    shown = {0: "0", -1.5: "-1.5", np.float64(-2): "-2.0", np.int64(-3): "-3", "two": "'two'", True: "True"}
    for value, text in shown.items():
        assert str(raised(lambda value=value: run("ols", eps=value))).endswith(f"got {text}.")


@pytest.mark.parametrize("eps", [1e21, 1e-21, np.timedelta64(1)])
def test_budgets_for_which_there_is_no_arithmetic(eps):
    error = raised(lambda: run("ols", eps=eps))
    check(error, kinds=dpstats.ParameterError)
    assert str(error).startswith("eps must be")


class Loud(float):
    def __repr__(self):
        return TEXT

    __str__ = __format__ = __repr__


class LoudText(str):
    def __repr__(self):
        return TEXT


class LoudName:
    def __repr__(self):
        return TEXT


@pytest.mark.parametrize(
    "value", [Loud(-1.0), LoudText("no"), LoudName(), 10**5000, -(10**5000)], ids=lambda v: type(v).__name__
)
def test_nothing_else_is_asked_for_its_text(value):
    for parameter in ("eps", "winsorize", "cov_type", "ledger"):
        check(raised(lambda parameter=parameter: run("ols", **{parameter: value})))


def test_levels_have_an_order():
    for levels in ({"b", "c"}, frozenset(["b", "c"])):
        error = raised(lambda levels=levels: run("ols", formula="y ~ g", levels={"g": levels}))
        check(error, kinds=dpstats.ParameterError)
        assert str(error) == (
            f"levels['g'] must be a list of levels, in their order, and a {type(levels).__name__} has none."
        )
    for levels in ({"b": 1, "c": 2}.keys(), ("b", "c"), pd.Index(["b", "c"]), np.array(["b", "c"])):
        error = raised(lambda levels=levels: run("ols", formula="y ~ g", levels={"g": levels}))
        assert error is None or isinstance(error, dpstats.ReleaseFailed)


# -- methods, the ledger, guarantees ---------------------------------------------------------------------


def result(**changes):
    parts = {
        "method": "OLS", "formula": "y ~ x", "names": ("Intercept", "x"), "estimates": [1.0, 2.0],
        "cov": np.eye(2), "covers": SAMPLING_AND_PRIVACY,
        "guarantee": dpstats.Guarantee(1, 0, "add-remove", "pure"),
    }  # fmt: skip
    return Results(**parts | changes)


def grouped():
    many = pd.DataFrame({"y": np.arange(90.0), "h": np.repeat(["a", "b", "c"], 30)})
    return dpstats.median("y ~ 1", many, eps=5, by="h", levels={"h": ["a", "b", "c"]}, seed=1)


METHODS = {
    "conf_int": (result, lambda r, v: r.conf_int(v)),
    "summary": (result, lambda r, v: r.summary(v)),
    "tidy": (result, lambda r, v: r.tidy(v)),
    "t_test": (result, lambda r, v: r.t_test(v)),
    "wald_test": (result, lambda r, v: r.wald_test(v)),
    "f_test": (result, lambda r, v: r.f_test(v)),
    "predict": (lambda: dpstats.ols("y ~ x", many_rows(), eps=5, seed=1), lambda r, v: r.predict(v)),
    "get_prediction": (
        lambda: dpstats.ols("y ~ x", many_rows(), eps=5, seed=1),
        lambda r, v: r.get_prediction(v),
    ),
    "anova": (result, lambda r, v: dpstats.anova(v)),
    "anova of two": (result, lambda r, v: dpstats.anova(r, v)),
    "combine": (result, lambda r, v: dpstats.combine(v)),
    "combine with another": (result, lambda r, v: dpstats.combine([r, v])),
    "from_dict": (result, lambda r, v: dpstats.from_dict(v)),
    "from_dict of parts": (result, lambda r, v: dpstats.from_dict(r.to_dict() | {"cov": v})),
    "name in a registry": (result, lambda r, v: r.to_registry(name=v)),
    "curators in a registry": (result, lambda r, v: r.to_registry(data_curators=v)),
    "plot of terms": (result, lambda r, v: r.plot(terms=v)),
    "plot at a level": (result, lambda r, v: r.plot(alpha=v)),
    "plot with the intercept": (result, lambda r, v: r.plot(intercept=v)),
    "plot in standard errors": (result, lambda r, v: r.plot(standardize=v)),
    "fixed interval": (
        lambda: result(covers=PRIVACY, cov=None, interval=FixedInterval((0.0, 0.0), (1.0, 1.0), 0.1)),
        lambda r, v: r.conf_int(v),
    ),
    "summary of groups": (grouped, lambda r, v: r.summary(v)),
    "tidy groups": (grouped, lambda r, v: r.tidy(v)),
}


def many_rows(n=4000):
    x = np.random.default_rng(0).standard_normal(n)
    return pd.DataFrame({"x": x, "y": 1 + x + np.random.default_rng(1).standard_normal(n), "g": "b"})


@pytest.mark.parametrize("method", METHODS)
def test_methods(method):
    make, call = METHODS[method]
    target = make()
    for what, value in MISPLACED.items():
        if (method, what) in ALLOWED:
            continue
        error = raised(lambda value=value: call(target, value))
        check(error)
        assert "does not know" not in str(error), what


def test_a_group_that_is_none():
    groups = grouped()
    for value in MISPLACED.values():
        error = raised(lambda value=value: groups[value])
        assert isinstance(error, KeyError) and not quotes_rows(error)


GUARANTEE = dpstats.Guarantee(1, 0, "add-remove", "pure")
PLACES = {
    **{
        f"Ledger({name})": lambda v, name=name: dpstats.Ledger(
            **{"path": ":memory:", "eps": 3, "delta": 0, name: v}
        )
        for name in inspect.signature(dpstats.Ledger).parameters
    },
    **{
        f"charge({name})": lambda v, name=name: memory().charge(
            **{"guarantee": GUARANTEE, "method": "ols", name: v}
        )
        for name in inspect.signature(dpstats.Ledger.charge).parameters
        if name != "self"
    },
    "remaining": lambda v: memory().remaining(v),
    **{
        f"Guarantee({name})": lambda v, name=name: dpstats.Guarantee(
            **{"eps": 1, "delta": 0, "neighbours": "add-remove", "kind": "pure", name: v}
        )
        for name in inspect.signature(dpstats.Guarantee).parameters
    },
    **{
        f"Spend({name})": lambda v, name=name: Spend(**{"step": "s", "mechanism": "m", "eps": 1, name: v})
        for name in inspect.signature(Spend).parameters
    },
}
NAMES = {
    "Ledger(path)",
    "Ledger(dataset)",
    "charge(method)",
    "charge(formula)",
    "Guarantee(scope)",
    "Guarantee(unit)",
    "Ledger(unit)",
    "Spend(step)",
    "Spend(mechanism)",
}


def memory():
    return dpstats.Ledger(":memory:", eps=3, delta=0)


@pytest.mark.parametrize("place", PLACES)
def test_the_ledger_and_guarantees(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for what, value in MISPLACED.items():
        if what == "a long text" and place in NAMES:
            continue
        error = raised(lambda value=value: PLACES[place](value))
        assert isinstance(error, dpstats.DpstatsError), (what, error)
        assert not quotes_rows(error), what
    assert not list(tmp_path.iterdir())


def test_a_text_in_the_place_of_a_ledger_is_not_quoted():
    check(raised(lambda: dpstats.Ledger(TEXT * 10)), traceback=False)


# -- frames ----------------------------------------------------------------------------------------------


def spoil(monkeypatch, error):
    """Make the mechanism of ols fail with an exception that quotes rows and is chained to another that
    does."""

    def crash(blocks, *rest):
        ((X, Y),) = blocks
        try:
            raise KeyError(TEXT, X)
        except KeyError:
            raised = error(TEXT, Y) if error is not KeyboardInterrupt else error()
            raised.add_note(TEXT)
            raise raised  # noqa: B904

    monkeypatch.setattr(ols_module, "_release", crash)


class Odd(Exception):
    pass


@pytest.mark.parametrize(
    "error",
    [
        ZeroDivisionError,
        np.linalg.LinAlgError,
        MemoryError,
        Odd,
        RuntimeWarning,
        StopIteration,
        dpstats.ParameterError,
    ],
)
def test_a_crash_after_the_charge_says_one_thing(monkeypatch, error):
    ledger = dpstats.Ledger(":memory:", eps=1, delta=1e-5)
    spoil(monkeypatch, error)
    found = raised(lambda: run("ols", ledger=ledger))
    check(found, kinds=dpstats.ReleaseFailed)
    assert str(found).startswith(
        "ols: the computation failed, and there is no estimate; the budget is spent."
    )
    assert found.guarantee.eps == 1 and ledger.remaining()[0] == 0
    assert not hasattr(found, "__notes__")


def test_an_interruption_carries_no_rows(monkeypatch):
    spoil(monkeypatch, KeyboardInterrupt)
    check(raised(lambda: run("ols")), kinds=KeyboardInterrupt)


def test_what_is_raised_before_the_charge_carries_no_rows(monkeypatch):
    ledger = dpstats.Ledger(":memory:", eps=0.1, delta=1e-5)
    for changes, kind in (
        ({"eps": -1.0}, dpstats.ParameterError),
        ({"formula": "y ~ nothing"}, dpstats.SchemaError),
        ({"formula": "y ~ center(x)"}, dpstats.FormulaError),
        ({"ledger": ledger}, dpstats.BudgetExceeded),
    ):
        check(raised(lambda changes=changes: run("ols", **changes)), kinds=kind)

    def crash(*args):
        raise ValueError(TEXT)

    monkeypatch.setattr(noisy_stats_module, "_budget", crash)
    error = raised(lambda: run("noisy_stats", ledger=dpstats.Ledger(":memory:", eps=1, delta=1e-5)))
    check(error)
    assert str(error).startswith("noisy_stats: an error that dpstats does not know; nothing was charged.")


def test_a_call_that_does_not_fit_the_signature_is_a_type_error():
    error = raised(lambda: dpstats.ols("y ~ x", ROWS))
    check(error, kinds=TypeError)
    assert "'eps'" in str(error)


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS)))
def test_no_function_leaves_its_frame_behind(name):
    check(raised(lambda: run(name, eps=-1.0)))


@pytest.mark.parametrize(
    "changes",
    [{}, {"select": 1, "formula": "y ~ x + z"}, {"formula": "y ~ x - 1"}],
    ids=["plain", "select", "no intercept"],
)
def test_a_failed_release_carries_no_rows(changes):
    frame = ROWS.assign(z=0.0)
    for name in (n for n in FUNCTIONS if "select" in inspect.signature(getattr(dpstats, n)).parameters):
        error = raised(lambda name=name: run(name, data=frame, **changes))
        check(error, kinds=dpstats.ReleaseFailed)
        assert "computation failed" not in str(error)


@pytest.mark.parametrize("processes", [False, True])
def test_a_crash_in_a_group_is_that_groups_alone(monkeypatch, processes):
    frame = pd.DataFrame({"y": np.arange(64.0), "h": np.arange(64) % 32})
    frame.loc[frame["h"] == 3, "y"] = NUMBER
    real = tukey_em_module.Results

    def release(blocks, *rest):
        ((_, Y),) = blocks
        if NUMBER in Y:
            raise ZeroDivisionError(TEXT, Y)
        return real(
            method="TukeyEM", formula="y ~ 1", names=("Intercept",), estimates=[0.0], cov=None,
            covers="No interval.",
            guarantee=GUARANTEE,
        )  # fmt: skip

    monkeypatch.setattr(tukey_em_module, "_release", release)
    monkeypatch.setattr(tukey_em_module, "_results", lambda design, budget, release: release)
    monkeypatch.setattr(_groups, "_PARALLEL", 2 if processes else 10**6)
    monkeypatch.setattr(_groups.os, "sched_getaffinity", lambda pid: {0, 1})
    fits = dpstats.tukey_em("y ~ 1", frame, eps=1, by="h", levels={"h": list(range(32))})
    assert list(fits.failed) == [3]
    assert fits.failed[3].startswith("tukey_em: the computation failed")
    check(raised(lambda: fits[3]), kinds=dpstats.ReleaseFailed)


def test_a_worker_that_dies_takes_the_groups_with_it(monkeypatch):
    frame = pd.DataFrame({"y": [NUMBER] * 64, "h": np.arange(64) % 32})
    parent = os.getpid()

    def release(blocks, *rest):
        if os.getpid() != parent:
            os._exit(1)
        raise dpstats.ReleaseFailed("tukey_em: no.")

    monkeypatch.setattr(tukey_em_module, "_release", release)
    monkeypatch.setattr(_groups, "_PARALLEL", 2)
    monkeypatch.setattr(_groups.os, "sched_getaffinity", lambda pid: {0, 1})
    error = raised(lambda: dpstats.tukey_em("y ~ 1", frame, eps=1, by="h", levels={"h": list(range(32))}))
    check(error, kinds=dpstats.ReleaseFailed)
    assert "computation failed" in str(error) and _groups._TASK is None


def test_the_switch_shows_errors_as_they_are(monkeypatch):
    spoil(monkeypatch, ZeroDivisionError)
    for value, kind in (("1", ZeroDivisionError), ("0", dpstats.ReleaseFailed), ("", dpstats.ReleaseFailed)):
        monkeypatch.setenv(DEBUG, value)
        error = raised(lambda: run("ols"))
        assert type(error) is kind
        assert reaches_rows(error) == (value == "1")


def test_an_error_is_raised_in_the_context_of_its_caller():
    @guarded
    def refuse(rows):
        raise dpstats.ParameterError("no")

    with pytest.raises(dpstats.ParameterError) as caught:
        try:
            raise KeyError("the caller's")
        except KeyError:
            refuse(ROWS)
    assert isinstance(caught.value.__context__, KeyError)


def test_notes_and_texts_of_libraries_do_not_leave_with_an_error():
    """What is said beside an error, and an error of a file that no system raised, may quote a row."""

    @guarded
    def fail(error):
        error.add_note(TEXT)
        raise error

    for error in (OSError(errno.EIO, "x"), dpstats.ReleaseFailed("no"), dpstats.ParameterError("no")):
        caught = raised(lambda error=error: fail(error))
        assert type(caught) is type(error) and not hasattr(caught, "__notes__")
    caught = raised(lambda: fail(OSError(TEXT)))
    assert type(caught) is dpstats.DpstatsError and TEXT not in str(caught)
