"""A fit as a record of a registry of deployments: what it knows of itself, and what is typed by hand.

The fields are those of OpenDP's registry of deployments of differential privacy. The prose of a record is
rendered as Markdown there.
"""

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Unpack

from dpstats._boundary import guarded
from dpstats._format import package_version
from dpstats._markup import code_span, to_markdown
from dpstats.errors import ParameterError
from dpstats.privacy.guarantee import KINDS, Guarantee, relation
from dpstats.results.parts import Declared
from dpstats.results.saved import declared, design_facts
from dpstats.results.spends import division
from dpstats.results.typed import Facts, checked
from dpstats.results.yaml import to_yaml

if TYPE_CHECKING:
    from dpstats.results.grouped import GroupedResults
    from dpstats.results.results import Results

__all__ = ["Deployment", "Registered", "deployment"]

_MOST = 50
"""Declared values that are written out."""


@dataclass(frozen=True, slots=True, repr=False)
class Deployment:
    """A record for the registry. Prints as the YAML of its file.

    Parameters
    ----------
    record : mapping

    Examples
    --------
    >>> deployment = Deployment({"url_slug": "income-office-2026", "tier": 3})
    >>> print(deployment.to_yaml(), end="")
    url_slug: income-office-2026
    tier: 3
    >>> deployment.file_name
    'income_office_2026.yaml'
    """

    record: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """The record as nested dicts, lists, strings and numbers.

        Returns
        -------
        dict

        Examples
        --------
        >>> Deployment({"url_slug": "income-office-2026", "tier": 3}).to_dict()
        {'url_slug': 'income-office-2026', 'tier': 3}
        """
        return copy.deepcopy(dict(self.record))

    def to_yaml(self) -> str:
        """The text of its file.

        Returns
        -------
        str

        Examples
        --------
        >>> print(Deployment({"url_slug": "income-office-2026", "tier": 3}).to_yaml(), end="")
        url_slug: income-office-2026
        tier: 3
        """
        return to_yaml(self.record)

    @property
    def file_name(self) -> str:
        """A name for the file as the registry asks for: lowercase letters, digits and underscores."""
        slug = re.sub(r"[^a-z0-9]+", "_", str(self.record["url_slug"]).lower()).strip("_")
        return f"{slug or 'deployment'}.yaml"

    def __str__(self) -> str:
        return self.to_yaml()

    __repr__ = __str__


class Registered:
    """What a registry can be told of: :class:`~dpstats.results.results.Results` and groups of them."""

    __slots__ = ()

    @guarded
    def to_registry(self, **facts: Unpack[Facts]) -> Deployment:
        """A record for OpenDP's registry of deployments: what the release knows, and what is typed by hand.

        Parameters
        ----------
        facts : str, or lists of str
            Fields of the registry by name, see :class:`dpstats.results.typed.Facts`. Required are `name`,
            `data_curators`, `intended_use`, `data_product_region`, `publication_date`, `actors` and
            `registry_authors`.

        Returns
        -------
        dpstats.results.registry.Deployment
            Prints as YAML; ``to_dict()``, ``to_yaml()``, ``file_name``.

        Raises
        ------
        ParameterError
            If a required fact is missing, one is unknown or not of its kind, or the release was seeded.

        Examples
        --------
        >>> import dpstats
        >>> record = dpstats.datasets.load_fit().to_registry(
        ...     name="Prices of diamonds", data_curators=["A shop"], actors="The public.",
        ...     intended_use="An example.", data_product_region="Utopia", publication_date="2026-01-31",
        ...     registry_authors=["A. Author"])
        >>> record.file_name
        'prices_of_diamonds_a_shop_2026.yaml'
        >>> record.to_dict()["deployment"]["privacy_loss"]["privacy_parameters"]
        {'epsilon': 1.0, 'delta': 1e-06}
        """
        fit: Any = self
        return deployment(fit, facts)


def deployment(fit: "Results | GroupedResults", facts: Mapping[str, Any]) -> Deployment:
    """The record of a fit.

    Parameters
    ----------
    fit : Results or GroupedResults
    facts : mapping
        :class:`dpstats.results.typed.Facts`.

    Returns
    -------
    Deployment

    Raises
    ------
    ParameterError
        If a required fact is missing, one is not of its kind or is unknown, or the fit is seeded.

    Examples
    --------
    >>> from dpstats.results.results import SAMPLING_AND_PRIVACY, Results
    >>> fit = Results(method="OLS", formula="y ~ x", names=("Intercept", "x"), estimates=[1.0, -0.5],
    ...               cov=[[0.04, 0.0], [0.0, 0.01]], covers=SAMPLING_AND_PRIVACY,
    ...               guarantee=Guarantee(1, 0, "add-remove", "pure"))
    >>> record = deployment(fit, {
    ...     "name": "Income by age", "data_curators": ["Statistics Office"], "actors": "The public.",
    ...     "intended_use": "Research.", "data_product_region": "Utopia", "publication_date": "2026-01-31",
    ...     "registry_authors": ["A. Author"]}).to_dict()
    >>> record["url_slug"], record["deployment"]["dp_variant"]["variant_name"]
    ('income-by-age-statistics-office-2026', 'Pure DP')
    >>> record["deployment"]["privacy_loss"]["privacy_parameters"]
    {'epsilon': 1.0}
    """
    typed = checked(facts)
    guarantee = fit.guarantee
    if guarantee.seeded:
        raise ParameterError(
            "fit must be released without seed= for a registry: a seeded release protects nobody."
        )
    year = typed["publication_date"][:4]
    slug = (typed["name"], "-".join(typed["data_curators"]), year)
    get, columns = typed.get, _columns(fit)
    results = next(iter(getattr(fit, "results", {None: fit}).values()), fit)
    gathered = getattr(fit, "_notes", None)
    notes = getattr(fit, "notes", ()) if gathered is None else gathered()
    method = f"{code_span(fit.formula)} by {results.method}"
    parts: dict[str, dict[str, Any]] = {
        "basic": {
            "name": typed["name"],
            "data_curators": typed["data_curators"],
            "intended_use": typed["intended_use"],
            "data_product_type": typed["data_product_type"],
            "data_product_region": typed["data_product_region"],
            "description": get("description", f"Estimates of {method}, with their errors."),
            "publication_date": typed["publication_date"],
            "data_product_sector": get("data_product_sector"),
        },
        "dp_variant": {
            "variant_name": _variant(guarantee),
            "data_domain": _text([*_domain(fit, columns), get("data_domain")]),
            "unprotected_quantities": _listed([*_unprotected(fit, columns), get("unprotected_quantities")]),
        },
        "privacy_loss": {
            "privacy_unit": get("privacy_unit", _unit(guarantee)),
            "privacy_unit_details": _adjacent(guarantee),
            "privacy_parameters": _parameters(guarantee),
            "privacy_parameters_details": _details(guarantee),
        },
        "deployment_model": {
            "model_name": "Central",
            **{key: get(key) for key in (
                "model_name_details", "actors", "release_type", "release_type_details", "data_source_type",
                "data_source_type_details", "access_type", "access_type_details",
            )},
        },
        "accounting": {
            "post_processing": _text([_AFTER, *(f"- {to_markdown(note)}" for note in notes)]),
            "composition": _listed(_composition(guarantee)),
        },
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": _text([
                _BEFORE, get("preprocessing_and_hyperparameter_tuning"),
            ]),
            "mechanisms": _listed([*_mechanisms(fit, results.method), get("mechanisms")]),
            "justification": get("justification"),
        },
        "administrative": {key: get(key) for key in ("sources", "notes", "registry_authors")},
    }  # fmt: skip
    filled = {
        part: {key: value for key, value in fields.items() if value is not None}
        for part, fields in parts.items()
    }
    slug_text = "_".join(re.sub(r"\W+", "_", text.lower()) for text in slug).replace("_", "-")
    return Deployment({"url_slug": slug_text, "status": typed["status"], "tier": 3, "deployment": filled})


_AFTER = (
    "Standard errors, intervals, tests and tables are computed from released numbers and public facts alone."
)
_BEFORE = (
    "The library learns nothing from the rows outside of the accounted steps: levels, bounds and knots are "
    "declared or in the formula, and scales, limits and numbers of rows that it needs are released within "
    "the budget, unless listed as public. Rows with a missing, non-finite or undeclared value are left out."
)


def _columns(fit: "Results | GroupedResults") -> tuple[Declared, ...]:
    """What was declared about the columns, the same in all groups; none if no result tells."""
    groups: Mapping[Any, Results] = getattr(fit, "results", {None: fit})
    for results in groups.values():
        facts = design_facts(results.design)
        columns = (*(() if facts is None else declared(facts["columns"])), *results.declared)
        return tuple({column.name: column for column in columns}.values())
    return ()


def _formula(fit: "Results | GroupedResults") -> str:
    """The formula, and the offset beside it."""
    results = next(iter(getattr(fit, "results", {None: fit}).values()), None)
    offset = getattr(results, "offset", None)
    beside = "" if offset is None else f" (and the offset {code_span(offset)})"
    return code_span(fit.formula) + beside


def _variant(guarantee: Guarantee) -> str:
    pure, approximate, _ = KINDS
    return {pure: "Pure DP", approximate: "Approximate DP"}.get(guarantee.kind, "Custom")


def _rows(guarantee: Guarantee) -> str:
    return "rows" if guarantee.unit is None else f"values of {code_span(guarantee.unit)}"


def _domain(fit: "Results | GroupedResults", columns: Sequence[Declared]) -> Iterator[str]:
    public = fit.guarantee.neighbours == "substitution"
    number = "a public number" if public else "any number"
    yield f"Tables of {number} of {_rows(fit.guarantee)} with the columns that {_formula(fit)} names."
    for column in columns:
        if column.levels is not None:
            what = "one of its declared levels"
        else:
            what = "any number" if column.bounds is None else "a number, moved into its declared bounds"
        yield f"- {code_span(column.name)}: {what}."


def _unprotected(fit: "Results | GroupedResults", columns: Sequence[Declared]) -> Iterator[str]:
    guarantee = fit.guarantee
    yield f"The formula {_formula(fit)}, the names of its columns, and the parameters of the call."
    if not columns:
        yield "Levels and bounds of columns, where they were declared in the call."
    for column in columns:
        if column.levels is not None:
            yield f"Declared levels of {code_span(column.name)}: {_values(column.levels)}."
        if column.bounds is not None:
            low, high = column.bounds
            yield f"Declared bounds of {code_span(column.name)}: {low:g} to {high:g}."
    by, levels = getattr(fit, "by", None), getattr(fit, "levels", ())
    if by is not None:
        yield f"The declared groups by {code_span(by)}: {_values(levels)}."
    if guarantee.neighbours == "substitution":
        of = " of each group, and the group of each record" if by is not None else ""
        yield f"The number of {_rows(guarantee)} handed in{of}."
    if guarantee.unit is not None:
        yield f"The name of the column of the units, {code_span(guarantee.unit)}."


def _values(values: Sequence[Any]) -> str:
    texts = [code_span(str(value)) for value in values[:_MOST]]
    return ", ".join(texts) + (f" and {len(values) - _MOST:,} more" if len(values) > _MOST else "")


def _unit(guarantee: Guarantee) -> str:
    return "One record (a row)" if guarantee.unit is None else f"All rows of one {code_span(guarantee.unit)}"


def _adjacent(guarantee: Guarantee) -> str:
    words = to_markdown(relation(guarantee.neighbours, guarantee.unit))
    text = f"Adjacent datasets differ by {words}. "
    if guarantee.neighbours == "substitution":
        text += f"Both have the same number of {_rows(guarantee)}, which is public."
    else:
        text += "The number of rows is not public."
    return text + ("" if guarantee.scope is None else f" Scope: {to_markdown(guarantee.scope)}")


def _parameters(guarantee: Guarantee) -> dict[str, float]:
    found = {"epsilon": float(guarantee.eps)}
    if guarantee.kind != KINDS[0]:
        found["delta"] = float(guarantee.delta)
    if guarantee.spends and division(guarantee)[1] == ("rho",):
        found["rho"] = sum(spend.rho or 0.0 for spend in guarantee.spends)
    return found


def _details(guarantee: Guarantee) -> str | None:
    units = division(guarantee)[1] if guarantee.spends else ()
    if units == ("rho",):
        return "The steps are rho-zCDP together, which gives epsilon at delta."
    if units == ("mu",):
        mu = sum((spend.mu or 0.0) ** 2 for spend in guarantee.spends) ** 0.5
        return f"The steps are mu-GDP together with mu = {mu:.6g}, which gives epsilon at delta."
    if guarantee.kind not in KINDS[:2]:
        share = "some share" if guarantee.gamma is None else f"a share gamma = {guarantee.gamma:g}"
        return (
            f"Random differential privacy, claimed by the method's paper and unproven: for {share} of the "
            "data sets that a population could give, nothing is promised."
        )
    return None


def _composition(guarantee: Guarantee) -> Iterator[str]:
    if guarantee.spends:
        shares, units, _ = division(guarantee)
        rules: dict[tuple[str, ...], str] = {
            ("eps",): "epsilon and delta of the steps add up (sequential composition)",
            ("mu",): "the steps are Gaussian; mu squared adds up (Gaussian DP)",
            ("rho",): "rho of the steps adds up (zero-concentrated DP)",
        }
        mixed = "mu squared of the Gaussian steps adds up, and epsilon of the others to that of these"
        rule = rules.get(units, mixed)
        yield f"Within the release {rule}."
        for spend, same in groupby(zip(guarantee.spends, shares, strict=True), key=lambda pair: pair[0]):
            each = [share for _, share in same]
            times = f", {len(each)} times" if len(each) > 1 else ""
            cost = f"{100 * sum(each):.1f} % of the budget"
            # what adds up, and nothing beside it
            keys = [key for key in units if getattr(spend, key)][-1:]
            numbers = [
                f"{key} = {value:.3g}"
                for key in (["eps", "delta"] if keys == ["eps"] else keys)
                if (value := getattr(spend, key))
            ]
            each_of = "each " if times else ""
            step = to_markdown(f"{spend.step} ({spend.mechanism}{times})")
            yield f"{step}: {cost}; {each_of}{', '.join(numbers) or 'free'}."
    if guarantee.scope is not None:
        yield to_markdown(guarantee.scope[:1].upper() + guarantee.scope[1:])
    yield "The parameters are those of this release alone: with others from the same data they add up."


def _mechanisms(fit: "Results | GroupedResults", method: str) -> Iterator[str]:
    spends = fit.guarantee.spends
    for name in dict.fromkeys(spend.mechanism for spend in spends):
        steps = dict.fromkeys(spend.step for spend in spends if spend.mechanism == name)
        yield to_markdown(f"{name[:1].upper()}{name[1:]}: {'; '.join(steps)}.")
    origin = fit.origin
    version = package_version() if origin is None else origin.version
    when = "" if origin is None or origin.released_at is None else f"; released at {origin.released_at}"
    yield f"Implementation: the Python library dpstats, version {version} ({method}){when}."
    yield (
        "Floating point: additive noise is drawn as integers by OpenDP's exact samplers and added on a "
        "public lattice, so that its low bits tell nothing; sums over rows are exact sums of rounded terms, "
        "and the noise has an allowance for the rounding. Other mechanisms state what rounding does to them "
        "in the library's pages of proofs."
    )
    yield ("Timing: the time and memory that the computation takes are not protected.")
    yield (
        "Platform: errors, warnings and the size of the result depend on public facts and released values "
        "alone."
    )


def _text(parts: Sequence[str | None]) -> str:
    return "\n".join(part for part in parts if part)


def _listed(parts: Any) -> str:
    return "\n".join(f"- {part}" for part in parts if part)
