"""Strings in rows to text, HTML and LaTeX. Knows nothing of estimators, and computes nothing.

statsmodels' ``iolib`` tables are not used: they leave names unescaped in HTML and have no bound on the
width of a line.
"""

import html
import math
import re
import textwrap
from dataclasses import dataclass

__all__ = ["MISSING", "WIDTH", "Summary", "Table", "format_p", "format_row", "format_value"]

WIDTH = 78
MISSING = "-"
_GAP = 2


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of strings under a header. The first column is text; it alone gives way when space is short.

    Parameters
    ----------
    header : tuple of str
    rows : tuple of tuple of str
        Each as long as the header.
    text_columns : int
        How many of the first columns are text, and flush left.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text_columns: int = 1


@dataclass(frozen=True, slots=True)
class Summary:
    """A printed result: title, facts, tables, paragraphs.

    Printing it, its ``repr`` and ``_repr_html_`` show it in a terminal and in a notebook.

    Parameters
    ----------
    title : str
    formula : str
        Has lines of its own, however long.
    facts : tuple of (str, str)
        Label and value pairs, set in two columns.
    coefficients : Table
    paragraphs : tuple of str
        Wrapped below the coefficients.
    spends : Table or None
        How the budget was divided.
    notes : tuple of str
        Wrapped and numbered at the end.

    Examples
    --------
    >>> table = Table(("", "coef", "std err"), (("Intercept", "1.20", "0.11"), ("x", "-0.52", "0.09")))
    >>> print(Summary("Least squares", "y ~ x", (("Rows", "100"),), table, ("A sentence.",)).as_text(width=40))
                 Least squares
    ========================================
    Formula: y ~ x
    Rows:          100
    ========================================
                               coef  std err
    ----------------------------------------
    Intercept                  1.20     0.11
    x                         -0.52     0.09
    ========================================
    A sentence.
    ========================================
    """

    title: str
    formula: str
    facts: tuple[tuple[str, str], ...]
    coefficients: Table
    paragraphs: tuple[str, ...] = ()
    spends: Table | None = None
    notes: tuple[str, ...] = ()

    def __str__(self):
        return self.as_text()

    def __repr__(self):
        return self.as_text()

    def _repr_html_(self):
        return self.as_html()

    def as_text(self, width=WIDTH):
        """Plain text, no line longer than `width` characters."""
        double, single = "=" * width, "-" * width
        lines = [*_wrap(self.title, width, center=True), double]
        if self.formula:
            lines += _wrap("Formula: " + self.formula, width, indent="  ")
        lines += _text_facts(self.facts, width)
        header, *rows = _text_table(self.coefficients, width)
        lines += [double, header, single, *rows, double]
        for paragraph in self.paragraphs:
            lines += _wrap(paragraph, width)
        if self.spends is not None:
            lines += ["", *_text_table(self.spends, width), ""]
        for number, note in enumerate(self.notes, 1):
            lines += _wrap(f"[{number}] {note}", width, indent="    ")
        return "\n".join([*lines, double])

    def as_html(self):
        """A self-contained HTML fragment; every string is escaped."""
        facts = "".join(f"<tr><th>{_h(label)}</th><td>{_h(value)}</td></tr>" for label, value in self.facts)
        formula = f"<p>Formula: <code>{_h(self.formula)}</code></p>" if self.formula else ""
        notes = "".join(f"<li>{_h(note)}</li>" for note in self.notes)
        return "\n".join(
            part
            for part in (
                f'<div class="dpstats">\n<style>{_CSS}</style>',
                f"<h4>{_h(self.title)}</h4>",
                formula,
                f'<table class="facts"><tbody>{facts}</tbody></table>' if facts else "",
                _html_table(self.coefficients),
                *(f"<p>{_h(paragraph)}</p>" for paragraph in self.paragraphs),
                _html_table(self.spends) if self.spends is not None else "",
                f"<ol>{notes}</ol>" if notes else "",
                "</div>",
            )
            if part
        )

    def as_latex(self):
        """A ``table`` environment for the `booktabs` package; every string is escaped."""
        parts = [
            "\\begin{table}\n\\centering",
            f"\\caption{{{_tex(self.title)}}}",
            _latex_table(self.coefficients),
        ]
        small = [f"Formula: {_tex(self.formula)}"] if self.formula else []
        small += [f"{_tex(label)}: {_tex(value)}" for label, value in self.facts]
        small += [_tex(paragraph) for paragraph in self.paragraphs]
        parts.append("\n\n\\medskip\n\\footnotesize\n" + "\\par\n".join(small) + "\\par")
        if self.spends is not None:
            parts.append("\\medskip\n" + _latex_table(self.spends))
        if self.notes:
            parts.append("\n" + "\\par\n".join(f"[{i}] {_tex(n)}" for i, n in enumerate(self.notes, 1)) + "\\par")
        return "\n".join([*parts, "\\end{table}"])


def format_value(x, digits=4, width=11):
    """One number to `digits` significant digits, within `width` characters.

    Examples
    --------
    >>> [format_value(x) for x in (0.0, 12345.678, -3.14159, 1e12, 2e-7, float("nan"))]
    ['0', '12346', '-3.142', '1.000e+12', '2.000e-07', '-']
    """
    if math.isnan(x):
        return MISSING
    if math.isinf(x) or x == 0:
        return f"{x:g}" if x else "0"
    return _fixed_or_scientific(x, digits - 1 - math.floor(math.log10(abs(x))), width, digits)


def format_row(estimate, se, *others, width=11):
    """An estimate, its standard error and further numbers in their units, all to the same decimal place.

    The last decimal is the third significant digit of the standard error: what is beyond it is noise.
    Without a standard error (NaN or 0), five significant digits of the estimate.

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
    """
    numbers = (estimate, se, *others)
    if math.isfinite(se) and se > 0:
        decimals = 2 - math.floor(math.log10(se))
    else:
        finite = abs(estimate) if math.isfinite(estimate) and estimate else 1.0
        decimals = 4 - math.floor(math.log10(finite))
    return [_decimal(x, decimals, width) for x in numbers]


def format_p(p):
    """A p-value to three decimals.

    Examples
    --------
    >>> [format_p(p) for p in (0.04999, 0.0009, 1.0, 0.9996, float("nan"))]
    ['0.050', '<0.001', '1.000', '1.000', '-']
    """
    if math.isnan(p):
        return MISSING
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _decimal(x, decimals, width):
    if math.isnan(x):
        return MISSING
    if math.isinf(x):
        return f"{x:g}"
    digits = decimals + 1 + (math.floor(math.log10(abs(x))) if x else 0)
    return _fixed_or_scientific(x, decimals, width, max(digits, 1))


def _fixed_or_scientific(x, decimals, width, digits):
    """`x` with `decimals` decimals if that is readable in `width`, else with `digits` significant digits."""
    if decimals <= 7:
        text = f"{x:.{max(decimals, 0)}f}"
        if len(text) > width and abs(x) < 10 ** (width - 4):
            text = f"{x:.{max(decimals - len(text) + width, 0)}f}"
        if len(text) <= width:
            return text
    if x == 0:
        return "0"
    for mantissa in range(min(digits - 1, width), -1, -1):
        text = f"{x:.{mantissa}e}"
        if len(text) <= width:
            break
    return text


def _shorten(names, width):
    """The names cut in the middle to `width` characters, still distinct: the end tells levels apart."""
    if width >= max(map(len, names), default=0):
        return list(names)
    tail = (width - 2) * 3 // 5
    short = [n if len(n) <= width else n[: width - 2 - tail] + ".." + n[-tail:] for n in names]
    for i, name in enumerate(short):
        if short.count(name) > 1:
            mark = f"..{i + 1}"
            short[i] = name[: width - len(mark)] + mark
    return short


def _text_table(table, width):
    columns = [[h, *(row[j] for row in table.rows)] for j, h in enumerate(table.header)]
    widths = [max(map(len, column)) for column in columns]
    room = width - _GAP * (len(columns) - 1)
    for j in range(table.text_columns):
        share = room - sum(widths) + widths[j]
        if widths[j] > share:
            widths[j] = max(share, 8)
            columns[j] = _shorten(columns[j], widths[j])
    widths[0] += max(room - sum(widths), 0)
    cells = [
        [cell.ljust(w) if j < table.text_columns else cell.rjust(w) for cell in column]
        for j, (column, w) in enumerate(zip(columns, widths, strict=True))
    ]
    return [(" " * _GAP).join(row).rstrip() for row in zip(*cells, strict=True)]


def _text_facts(facts, width):
    """Label and value pairs down two columns; a pair too wide for half a line takes a line."""
    half = (width - 2 * _GAP) // 2
    narrow = [f for f in facts if len(f[0]) + len(f[1]) + 3 <= half]
    wide = [f for f in facts if f not in narrow]
    cells = [label + ":" + value.rjust(half - len(label) - 1) for label, value in narrow]
    rows = (len(cells) + 1) // 2
    left, right = cells[:rows], cells[rows:]
    lines = [a + (" " * (width - 2 * half) + right[i] if i < len(right) else "") for i, a in enumerate(left)]
    for label, value in wide:
        lines += _wrap(f"{label}: {value}", width, indent="  ")
    return lines


def _wrap(text, width, indent="", center=False):
    lines = textwrap.wrap(text, width, subsequent_indent=indent) or [""]
    return [line.center(width).rstrip() for line in lines] if center else lines


_CSS = (
    ".dpstats table{border-collapse:collapse;margin:.5em 0}"
    ".dpstats td,.dpstats th{padding:.15em .7em;text-align:right;font-variant-numeric:tabular-nums}"
    ".dpstats .t{text-align:left;font-weight:normal}"
    ".dpstats thead th{border-bottom:1px solid}"
    ".dpstats .facts th{text-align:left;font-weight:normal}"
    ".dpstats p,.dpstats ol{max-width:46em;margin:.3em 0}"
)


def _h(text):
    return html.escape(text)


def _html_table(table):
    def cells(row, tag):
        return "".join(
            f'<{tag} class="t">{_h(c)}</{tag}>' if j < table.text_columns else f"<{tag}>{_h(c)}</{tag}>"
            for j, c in enumerate(row)
        )

    body = "\n".join(f"<tr>{cells(row, 'td')}</tr>" for row in table.rows)
    return f"<table><thead><tr>{cells(table.header, 'th')}</tr></thead>\n<tbody>\n{body}\n</tbody></table>"


_TEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedbl{}",
    **{c: "\\" + c for c in "&%$#_"},
}  # fmt: skip
_NUMBER = re.compile(r"[-+]?\d[\d,]*(\.\d+)?(e[-+]\d+)?")


def _tex(text):
    if _NUMBER.fullmatch(text):
        return f"${text.replace(',', '{,}')}$"
    return "".join(_TEX.get(c, c) for c in text)


def _latex_table(table):
    align = "l" * table.text_columns + "r" * (len(table.header) - table.text_columns)

    def line(row):
        return " & ".join(map(_tex, row)) + r" \\"

    return "\n".join([
        f"\\begin{{tabular}}{{{align}}}\n\\toprule", line(table.header), "\\midrule", *map(line, table.rows),
        "\\bottomrule\n\\end{tabular}",
    ])  # fmt: skip
