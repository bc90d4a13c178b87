"""Nested dicts, lists, strings and numbers as YAML that every reader reads alike: no library is needed."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["to_yaml"]

_PLAIN = re.compile(r"(?=[0-9-]*[a-z])[a-z0-9]+(?:-[a-z0-9]+){2,}")
"""A slug: no reader takes it for a number or a date."""


def to_yaml(value: Mapping[str, Any]) -> str:
    """A mapping as YAML.

    Texts of several lines are blocks; others are quoted, as dates and numbers would not stay texts. Numbers
    have a point before their exponent, without which some readers see a text.

    Parameters
    ----------
    value : mapping
        Of mappings, lists, strings, numbers, truth values and None, by names.

    Returns
    -------
    str

    Examples
    --------
    >>> print(to_yaml({"date": "2026-01-31", "budget": {"delta": 1e-06}, "who": ["A", "B"]}), end="")
    date: "2026-01-31"
    budget:
      delta: 1.0e-06
    who:
      - "A"
      - "B"
    """
    return "\n".join(_lines(value, "")) + "\n"


def _lines(value: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, item in value.items():
        start = f"{indent}{key}:"
        if isinstance(item, Mapping) and item:
            yield start
            yield from _lines(item, indent + "  ")
        elif isinstance(item, list) and item:
            yield start
            yield from (f"{indent}  - {_scalar(each)}" for each in item)
        elif isinstance(item, str) and _is_block(item):
            yield f"{start} |-"
            yield from (f"{indent}  {line}" if line else "" for line in item.split("\n"))
        else:
            yield f"{start} {_scalar(item)}"


def _is_block(text: str) -> bool:
    """Whether a text can be a block whose last line ends without a break."""
    lines = text.split("\n")
    return len(lines) > 1 and text == text.strip() and all(line.isprintable() for line in lines)


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return value if _PLAIN.fullmatch(value) else _quoted(value)
    if isinstance(value, float):
        text = repr(value)
        return text.replace("e", ".0e") if "e" in text and "." not in text else text
    return json.dumps(value)


def _quoted(text: str) -> str:
    """A double-quoted text; what cannot be printed is escaped as YAML does, and JSON above the base plane
    does not."""
    shown = json.dumps(text, ensure_ascii=False)
    return "".join(
        c if c.isprintable() else f"\\u{ord(c):04x}" if ord(c) < 1 << 16 else f"\\U{ord(c):08x}"
        for c in shown
    )
