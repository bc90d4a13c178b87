"""Results from the plain dicts that ``to_dict()`` makes of them."""

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from dpstats._boundary import guarded
from dpstats._validation import fail, shown
from dpstats.errors import FormulaError, ParameterError, SchemaError
from dpstats.formula.design import Design
from dpstats.formula.units import WithinDesign
from dpstats.linear.anchors import LineInterval
from dpstats.mechanisms.smooth_sensitivity import NoiseInterval
from dpstats.privacy.guarantee import Guarantee
from dpstats.results.glm import GLMResults, Slopes
from dpstats.results.grouped import GroupedResults
from dpstats.results.hypotheses import HetTest
from dpstats.results.inference import FixedInterval
from dpstats.results.parts import Heterogeneity, Interval, Origin
from dpstats.results.results import Results
from dpstats.results.saved import FORMAT, declared, decoded, stored_levels

__all__ = ["from_dict", "load"]

_WHAT = "what to_dict() of a fit gave"
_NOT_READ = "what describe(), diagnose() and select_features() release is not read back"


@guarded
def from_dict(facts: Mapping[str, Any]) -> Results | GroupedResults:
    """The result that its ``to_dict()`` was made from: numbers, table, tests, predictions, guarantee.

    Floats are the same to the last bit, also after ``json.dumps`` and ``json.loads``.

    Parameters
    ----------
    facts : mapping
        What ``to_dict()`` of a :class:`Results`, `GLMResults` or `GroupedResults` gave.

    Returns
    -------
    Results, GLMResults or GroupedResults

    Raises
    ------
    ParameterError
        If it is something else, or was written by a version of the package with another format.

    Examples
    --------
    >>> import json
    >>> import dpstats
    >>> diamonds = dpstats.datasets.load_diamonds()
    >>> fit = dpstats.ols("price ~ carat", diamonds, eps=1, seed=1)
    >>> text = json.dumps(fit.to_dict())
    >>> again = from_dict(json.loads(text))
    >>> again == fit, bool((again.predict(diamonds) == fit.predict(diamonds)).all())
    (True, True)
    """
    head = facts.get("dpstats") if isinstance(facts, Mapping) else None
    if not isinstance(head, Mapping):
        fail("facts", facts, f"{_WHAT} ({_NOT_READ})")
    form, version = str(head.get("format")), str(head.get("version"))
    if form.partition(".")[0] != FORMAT.partition(".")[0]:
        raise ParameterError(
            f"facts must be of format {FORMAT}, which this version of dpstats reads, got format "
            f"{shown(form)} of dpstats {shown(version)}."
        )
    try:
        return _grouped(facts) if head["kind"] == "GroupedResults" else _results(facts)
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, FormulaError, SchemaError):
        fail("facts", facts, f"{_WHAT}, unchanged")


def _origin(facts: Mapping[str, Any]) -> Origin:
    head = facts["dpstats"]
    return Origin(head["version"], head["released_at"])


def _grouped(facts: Mapping[str, Any]) -> GroupedResults:
    levels = stored_levels(facts["levels"]) or ()
    pairs = list(zip(levels, facts["groups"], strict=True))
    return GroupedResults(
        facts["method"],
        facts["formula"],
        facts["by"],
        levels,
        {level: _results(group) for level, group in pairs if "failed" not in group},
        {level: group["failed"] for level, group in pairs if "failed" in group},
        Guarantee.from_dict(facts["guarantee"]),
        _origin(facts),
    )


def _results(facts: Mapping[str, Any]) -> Results:
    names = [row["term"] for row in facts["coefficients"]]
    het, heterogeneity = facts["het"], facts["heterogeneity"]
    parts: dict[str, Any] = {
        "method": facts["method"],
        "formula": facts["formula"],
        "names": tuple(names),
        "estimates": decoded([row["estimate"] for row in facts["coefficients"]]),
        "cov": None if facts["cov"] is None else decoded(facts["cov"]),
        "covers": facts["covers"],
        "guarantee": Guarantee.from_dict(facts["guarantee"]),
        "response": facts["response"],
        "released": {key: decoded(value) for key, value in facts["released"].items()},
        "notes": tuple(facts["notes"]),
        "terms": {term: _where(inside, names) for term, inside in facts["terms"].items()},
        "interval": _interval(facts["interval"]),
        "df": facts["df"],
        "limited": tuple((name, decoded(low), decoded(high)) for name, low, high in facts["limited"]),
        "design": _design(facts["design"]),
        "cov_type": facts["cov_type"],
        "het": None if het is None else HetTest(**_numbers(het)),
        "heterogeneity": None if heterogeneity is None else Heterogeneity(**_numbers(heterogeneity)),
        "origin": _origin(facts),
        "declared": declared(facts["declared"]),
        **{
            name: None if facts.get(name) is None else decoded(facts[name])
            for name in ("bias", "root", "bias_root", "free")
        },
    }
    if facts["dpstats"]["kind"] == "Results":
        return Results(**parts)
    slopes = facts["slopes"]
    if slopes is not None:
        slopes = Slopes(
            decoded(slopes["mean"]), np.array(decoded(slopes["gradient"])), decoded(slopes["noise"])
        )
    if facts["dpstats"]["kind"] != "GLMResults":
        raise ValueError
    return GLMResults(**parts, link=facts["link"], slopes=slopes, offset=facts.get("offset"))


def _where(inside: list[str], names: list[str]) -> slice:
    start = names.index(inside[0]) if inside else 0
    return slice(start, start + len(inside))


def _numbers(test: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of a test; of degrees of freedom there may be none."""
    return {key: None if key == "df" and value is None else decoded(value) for key, value in test.items()}


def _interval(facts: Mapping[str, Any] | None) -> Interval | None:
    if facts is None:
        return None
    if facts["kind"] == "FixedInterval":
        return FixedInterval(decoded(facts["lower"]), decoded(facts["upper"]), facts["alpha"])
    if facts["kind"] == "NoiseInterval":
        scales = tuple(decoded(facts["scales"]))
        return NoiseInterval(tuple(decoded(facts["estimates"])), scales, decoded(facts["rate"]))
    if facts["kind"] == "LineInterval":
        first, at = decoded(facts["values"]), decoded(facts["at"])
        return LineInterval(
            (first[0], first[1]), decoded(facts["scale"]), (at[0], at[1]), decoded(facts["rate"])
        )
    raise ValueError


def _design(facts: Mapping[str, Any] | None) -> Design | WithinDesign | None:
    if facts is None:
        return None
    limits = {end: None if facts[end] is None else decoded(facts[end]) for end in ("low", "high")}
    columns = [{**column, "levels": stored_levels(column["levels"])} for column in facts["columns"]]
    design = Design.of_facts({**facts, **limits, "columns": columns})
    return WithinDesign(design) if facts.get("within") else design


@guarded
def load(path: str | os.PathLike[str]) -> Results | GroupedResults:
    """The result that ``fit.save(path)`` wrote.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    Results, GLMResults or GroupedResults

    Raises
    ------
    ParameterError
        If the file holds something else, or was written by a version of the package with another format.

    Examples
    --------
    >>> import tempfile, dpstats
    >>> fit = dpstats.median("x ~ 1", {"x": list(range(1000))}, eps=1, seed=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fit.save(f"{folder}/fit.json")
    ...     again = dpstats.load(f"{folder}/fit.json")
    >>> again == fit
    True
    """
    if not isinstance(path, str | os.PathLike):
        fail("path", path, "a file name")
    with open(path, encoding="utf-8") as file:
        try:
            facts = json.load(file)
        except ValueError:
            facts = None
    if not isinstance(facts, dict) or "dpstats" not in facts:
        fail("path", path, "that of a file that fit.save() wrote")
    return from_dict(facts)
