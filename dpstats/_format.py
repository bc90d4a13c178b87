"""Numbers and names as short texts."""

import bisect
import itertools
import math
import sys
import textwrap
import unicodedata
from collections import Counter
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context

__all__ = [
    "MISSING",
    "UNDETERMINED",
    "apart",
    "at_least",
    "at_most",
    "format_p",
    "format_row",
    "format_statistic",
    "format_value",
    "listed",
    "package_version",
    "shorten",
    "text_width",
    "too_few",
    "wrap",
]

MISSING, UNDETERMINED = "-", "n.d."
_NEXT_TO_0 = 1e-40
"""No table has smaller numbers: doubles are so dense about 0 that a mechanism draws one for a value of 0."""


def package_version() -> str:
    """The version of dpstats that runs here.

    Examples
    --------
    >>> import dpstats
    >>> package_version() == dpstats.__version__
    True
    """
    return str(sys.modules["dpstats"].__version__)


def format_value(x: float, width: float = 0.0) -> str:
    """One number to four significant digits (all digits before the point), within ten characters; of one with
    an interval, no further than to the second digit of its `width`.

    Examples
    --------
    >>> [format_value(x) for x in (0.0, 12345.678, -3.14159, 1e12, 2e-7, float("nan"))]
    ['0', '12346', '-3.142', '1.000e+12', '2.000e-07', '-']
    >>> format_value(0.98765, width=1.0), format_value(2.34567, width=0.031)
    ('1.0', '2.346')
    """
    decimals = 3 - _exponent(x)
    return _number(x, min(decimals, 1 - _exponent(width)) if width > 0 else decimals, 10) if x else "0"


def apart(low: float, high: float, digits: int = 4) -> tuple[str, str]:
    """Two numbers to `digits` significant digits, or to as many as tell three of their difference.

    Examples
    --------
    >>> apart(-2.12812, 3.52812), apart(2e9 - 12.34, 2e9 + 56.78)
    (('-2.128', '3.528'), ('1999999987.7', '2000000056.8'))
    """
    length = high - low
    if math.isfinite(length) and length:
        longer = 3 + _exponent(max(abs(low), abs(high))) - _exponent(length)
        digits = min(max(digits, longer), 17)
    return f"{low:.{digits}g}", f"{high:.{digits}g}"


def at_least(x: float, digits: int = 6) -> str:
    """A budget to `digits` significant digits, rounded up: no text promises more than a release keeps.

    (What is below by rounding alone, a billionth of it, counts as it is.)

    Examples
    --------
    >>> at_least(1.00049, 4), at_least(0.1 + 0.2), at_least(1e-6), at_least(0.0), at_least(float("inf"))
    ('1.001', '0.3', '1e-06', '0', 'inf')
    """
    return _towards(ROUND_CEILING, x, digits)


def at_most(x: float, digits: int = 6) -> str:
    """The same rounded down, for what is left.

    Examples
    --------
    >>> at_most(0.99999, 4), at_most(2.0)
    ('0.9999', '2')
    """
    return _towards(ROUND_FLOOR, x, digits)


def _towards(rounding: str, x: float, digits: int) -> str:
    text = f"{x:.{digits}g}"
    if math.isclose(float(text), x, rel_tol=1e-9) or not math.isfinite(x):
        return text
    return f"{float(Context(digits, rounding).create_decimal(repr(float(x)))):.{digits}g}"


def format_row(estimate: float, se: float, *others: float, width: int = 10) -> list[str]:
    """An estimate, its standard error and further numbers in their units, all to the same decimal place.

    The last decimal is the third significant digit of the standard error: what is beyond it is noise.
    Without a standard error (NaN or 0), it is the fifth significant digit of the estimate, or of the length
    of its interval if two further numbers are one and that is longer.

    Returns
    -------
    list of str

    Examples
    --------
    >>> format_row(1.23456789, 0.0123456, 1.21, 1.26)
    ['1.2346', '0.0123', '1.2100', '1.2600']
    >>> format_row(-7362.81, 18.934)
    ['-7362.8', '18.9']
    >>> format_row(2.5, float("nan"), float("nan"))
    ['2.5000', '-', '-']
    >>> format_row(1.36e-115, float("nan"), -2048.0, 2048.0)
    ['0.0', '-', '-2048.0', '2048.0']
    """
    if math.isfinite(se) and se > 0:
        decimals = 2 - _exponent(se)
    else:
        length = others[1] - others[0] if len(others) == 2 else math.nan
        decimals = 4 - (max(_exponent(estimate), _exponent(length)) if length > 0 else _exponent(estimate))
    return [_number(x, decimals, width) for x in (estimate, se, *others)]


def format_statistic(x: float) -> str:
    """A t or z statistic to two decimals, or two digits where it is huge.

    Examples
    --------
    >>> [format_statistic(x) for x in (-1.959964, 123.456, -4.5e7, float("inf"), float("nan"))]
    ['-1.96', '123.46', '-4.5e+07', 'inf', '-']
    """
    return _number(x, 2 if abs(x) < 99999 else 1 - _exponent(x), 8)


def format_p(p: float) -> str:
    """A p-value to three decimals.

    Examples
    --------
    >>> [format_p(p) for p in (0.04999, 0.0009, 1.0, 0.9996, float("nan"))]
    ['0.050', '<0.001', '1.000', '1.000', '-']
    """
    if math.isnan(p):
        return MISSING
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def listed(items: Sequence[str], shown: int = 3) -> str:
    """The first items of a list in a sentence, and how many more there are.

    Examples
    --------
    >>> listed(["a", "b"]), listed(["a", "b", "c", "d", "e"])
    ('a, b', 'a, b, c and 2 more')
    """
    rest = len(items) - shown
    return ", ".join(items[:shown]) + (f" and {rest:,} more" if rest > 0 else "")


def too_few(rows: int) -> str:
    """What a refusal says of a public number of rows.

    Examples
    --------
    >>> too_few(1), too_few(1200)
    ('1 row is too few', '1,200 rows are too few')
    """
    return f"{rows:,} row{' is' if rows == 1 else 's are'} too few"


def text_width(text: str) -> int:
    """Columns of a terminal that a text takes: two for a wide character, as of Chinese, none for a mark on
    the character before it.

    Examples
    --------
    >>> text_width("income"), text_width("\u6536\u5165"), text_width("e\u0301")
    (6, 4, 1)
    """
    return len(text) if text.isascii() else sum(map(_width, text))


def _width(c: str) -> int:
    if unicodedata.category(c) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(c) in "WF" else 1


def _beginning(text: str, width: int) -> str:
    """As much of a text as has room in so many columns of a terminal."""
    return text[: bisect.bisect(list(itertools.accumulate(map(_width, text))), width)]


def wrap(text: str, width: int, indent: str = "") -> list[str]:
    """A text in lines of at most `width` columns of a terminal; all but the first start with `indent`.

    Examples
    --------
    >>> wrap("income of households", 10), wrap("\u6536\u5165 \u6536\u5165\u6536\u5165", 7)
    (['income of', 'households'], ['\u6536\u5165 \u6536', '\u5165\u6536\u5165'])
    """
    if all(_width(c) < 2 for c in text):
        return textwrap.wrap(text, width, subsequent_indent=indent)
    lines = [""]
    for word in text.split():
        while word:
            started = lines[-1] not in ("", indent)
            line = lines[-1] + " " * started
            fits = text_width(indent + word) <= width
            part = word if fits else _beginning(word, width - text_width(line))
            if text_width(line + part) > width or not part:
                if started:
                    lines.append(indent)
                    continue
                part = word[:1]
            lines[-1], word = line + part, word[len(part) :]
    return lines


def shorten(names: Sequence[str], width: int) -> list[str]:
    """The names in at most `width` columns of a terminal each, still distinct if they were.

    In a name that is too long the arguments of a call go first, then its middle: the end tells levels
    apart.

    Examples
    --------
    >>> shorten(["carat", "C(cut, levels=['Fair', 'Good', 'Ideal'])[T.Good]"], 24)
    ['carat', 'C(cut,..)[T.Good]']
    """
    tail = (width - 2) * 3 // 5
    short: list[str] = []
    for name in names:
        if text_width(name) > width:
            name = _without_arguments(name)
        if text_width(name) > width:
            name = _beginning(name, width - 2 - tail) + ".." + _beginning(name[::-1], tail)[::-1]
        short.append(name)
    count = Counter(short)
    for i, name in enumerate(short):
        if count[name] > 1 and names.count(names[i]) == 1:
            mark = f"..{i + 1}"
            short[i] = _beginning(name, width - len(mark)) + mark
    return short


def _without_arguments(name: str) -> str:
    """``f(x, anything)[level]`` as ``f(x,..)[level]``, whatever brackets and quotes `anything` holds."""
    kept: list[str] = []
    opened: list[str] = []
    quote, dropping = "", False
    for c in name:
        if quote:
            quote = "" if c == quote else quote
        elif c in "\"'":
            quote = c
        elif c in "([{":
            opened.append(c)
        elif c in ")]}" and opened:
            opened.pop()
            dropping = dropping and bool(opened)
        elif c == "," and opened == ["("] and not dropping:
            kept.append(",..")
            dropping = True
        if not dropping:
            kept.append(c)
    return name if dropping else "".join(kept)


def _exponent(x: float) -> int:
    return math.floor(math.log10(abs(x))) if math.isfinite(x) and x else 0


def _number(x: float, decimals: int, width: int) -> str:
    """`x` rounded at `decimals`: fixed where that is readable in `width`, else with an exponent. A zero has
    no minus sign.
    """
    if math.isnan(x):
        return MISSING
    if math.isinf(x):
        return f"{x:g}"
    if abs(x) < max(0.5 * 10.0 ** -min(decimals, 300), _NEXT_TO_0) and decimals > 7:
        return "0"
    whole = len(f"{x:.0f}")
    if whole <= width and (decimals <= 7 or abs(x) >= 1e-4):
        return f"{x:z.{max(min(decimals, width - whole - 1), 0)}f}"
    if x == 0:
        return "0"
    mantissa = min(max(decimals + _exponent(x), 0), width - len(f"{x:.0e}") - 1)
    return f"{x:.{max(mantissa, 0)}e}"
