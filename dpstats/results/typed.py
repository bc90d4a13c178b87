"""What is typed by hand for a record of a registry of deployments."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, TypedDict

from dpstats._validation import fail, one_of, shown
from dpstats.errors import ParameterError

__all__ = ["CHOICES", "REQUIRED", "Facts", "checked"]

REQUIRED = (
    "name",
    "data_curators",
    "intended_use",
    "data_product_region",
    "publication_date",
    "actors",
    "registry_authors",
)
"""What must be typed, as no fit knows it."""

CHOICES = {
    "status": ("Draft", "Pending"),
    "data_product_type": (
        "Summary statistics",
        "Machine learning model",
        "Dataset",
        "Synthetic data",
        "Interactive API",
        "SQL queries",
    ),
    "data_product_sector": ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance"),
    "release_type": ("One release", "Many releases"),
    "data_source_type": ("Static", "Dynamic"),
    "access_type": ("Non-interactive", "Interactive"),
}
"""What is one of several words, the first of them unless it is typed; a sector is left out."""

_SEVERAL = ("data_curators", "registry_authors")


class Facts(TypedDict, total=False):
    """What is typed by hand: names and meanings are those of the registry's fields.

    Required are ``name, data_curators, intended_use, data_product_region, publication_date``
    (``YYYY-MM-DD``), ``actors`` and ``registry_authors``. What a fit says of itself in `description` and
    `privacy_unit` gives way to what is typed; to `data_domain`, `unprotected_quantities`, `mechanisms` and
    `preprocessing_and_hyperparameter_tuning` it is added. Whatever else is not typed is left out.
    """

    name: str
    data_curators: Sequence[str]
    intended_use: str
    data_product_region: str
    publication_date: str | date
    actors: str
    registry_authors: Sequence[str]
    status: str
    description: str
    data_product_type: str
    data_product_sector: str
    data_domain: str
    unprotected_quantities: str
    privacy_unit: str
    model_name_details: str
    release_type: str
    release_type_details: str
    data_source_type: str
    data_source_type_details: str
    access_type: str
    access_type_details: str
    preprocessing_and_hyperparameter_tuning: str
    mechanisms: str
    justification: str
    sources: str
    notes: str


def checked(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What was typed, by name and of its kind, with the words that are chosen if nothing is typed.

    Parameters
    ----------
    facts : mapping
        :class:`Facts`.

    Returns
    -------
    dict

    Raises
    ------
    ParameterError
        If a required fact is missing, or one is not of its kind or unknown.

    Examples
    --------
    >>> checked({"name": "Income by age"})
    Traceback (most recent call last):
    ...
    dpstats.errors.ParameterError: data_curators must be given: a registry asks for it, and no fit knows it.
    """
    for name in facts:
        if name not in Facts.__annotations__:
            known = ", ".join(Facts.__annotations__)
            raise ParameterError(f"{shown(name)} is no fact of a registry's record. These are: {known}.")
    for name in REQUIRED:
        if facts.get(name) is None:
            raise ParameterError(f"{name} must be given: a registry asks for it, and no fit knows it.")
    found: dict[str, Any] = {name: value for name, value in facts.items() if value is not None}
    for name, value in found.items():
        if name in CHOICES:
            one_of(name, value, CHOICES[name])
        elif name in _SEVERAL:
            if isinstance(value, str) or not isinstance(value, Sequence) or not all(map(_said, value)):
                fail(name, value, "a list of names")
            found[name] = list(value)
            if not value:
                fail(name, value, "a list of one name at least")
        elif name == "publication_date":
            found[name] = _day(value)
        elif not _said(value):
            fail(name, value, "a text")
    for name, words in CHOICES.items():
        if name != "data_product_sector":
            found.setdefault(name, words[0])
    return found


def _said(text: object) -> bool:
    return isinstance(text, str) and bool(text.strip())


def _day(value: object) -> str:
    text = value.isoformat() if type(value) is date else value
    try:
        # other forms of ISO 8601 are dates as well, but not to the registry
        if isinstance(text, str) and date.fromisoformat(text).isoformat() == text:
            return text
    except ValueError:
        pass
    return fail("publication_date", value, "a date, or its text 'YYYY-MM-DD'")
