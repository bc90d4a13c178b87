"""Strings in rows to text, HTML and LaTeX. Knows nothing of estimators, and computes nothing.

statsmodels' ``iolib`` tables are not used: they leave names unescaped in HTML and have no bound on the
width of a line.
"""

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from dpstats._format import shorten, text_width, wrap
from dpstats._markup import one_line, to_html, to_latex, to_markdown

__all__ = ["WIDTH", "Summary", "Table", "Tabled"]

WIDTH = 78
_GAP, _NAMES = 2, 12
"""Characters between columns, and the least for the column of names."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of strings under a header.

    Parameters
    ----------
    header : tuple of str
    rows : tuple of tuple of str
        Each as long as the header.
    text_columns : int
        How many of the first columns are text: flush left, and the ones that give way when space is
        short. A single one is cut (it holds names); several are wrapped (they hold words).
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
    further : tuple of Table
        Below the coefficients.

    Examples
    --------
    >>> table = Table(("", "coef", "std err"), (("x", "-0.52", "0.09"),))
    >>> summary = Summary("Least squares", "y ~ x", (), table, ("A sentence.",))
    >>> print(summary.as_text(width=40))
                 Least squares
    ========================================
    Formula: y ~ x
    ========================================
                               coef  std err
    ----------------------------------------
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
    further: tuple[Table, ...] = ()

    def __str__(self) -> str:
        return self.as_text()

    def __repr__(self) -> str:
        return self.as_text()

    def _repr_html_(self) -> str:
        return self.as_html()

    @property
    def _tables(self) -> tuple[Table, ...]:
        return (self.coefficients, *self.further)

    @property
    def tables(self) -> list[Any]:
        """The facts and the coefficients as tables of statsmodels, which have ``as_html()`` and the like."""
        from statsmodels.iolib.table import SimpleTable

        facts = [("Formula", self.formula), *self.facts] if self.formula else list(self.facts)
        inner = [SimpleTable(table.rows, headers=list(table.header)) for table in self._tables]
        return [SimpleTable(facts, title=self.title), *inner]

    def as_text(self, width: int = WIDTH) -> str:
        """Plain text.

        Parameters
        ----------
        width : int
            No line is longer; 40 and more.

        Returns
        -------
        str

        Examples
        --------
        >>> summary = Summary("Least squares", "y ~ x", (), Table(("", "coef"), (("x", "-0.52"),)))
        >>> summary.as_text(40).splitlines()[-3].split()
        ['x', '-0.52']
        """
        double, single = "=" * width, "-" * width
        lines = [*_wrap(self.title, width, center=True), double]
        if self.formula:
            lines += _wrap("Formula: " + self.formula, width, indent="  ")
        lines += _text_facts(self.facts, width)
        for part in (part for table in self._tables for part in _parts(table, width)):
            header, *rows = _text_table(part, width)
            lines += [double, header, single, *rows]
        lines.append(double)
        for paragraph in self.paragraphs:
            lines += _wrap(paragraph, width)
        if self.spends is not None:
            lines += [single, *_text_table(self.spends, width)]
            lines += [single] if self.notes else []
        for number, note in enumerate(self.notes, 1):
            lines += _wrap(f"[{number}] {note}", width, indent="    ")
        return "\n".join([*lines, double])

    def as_html(self) -> str:
        """A self-contained HTML fragment; every string is escaped.

        Returns
        -------
        str

        Examples
        --------
        >>> summary = Summary("Least squares", "y ~ x", (), Table(("", "coef"), (("x", "-0.52"),)))
        >>> summary.as_html().splitlines()[-3]
        '<tr><td class="t">x</td><td>-0.52</td></tr>'
        """
        facts = "".join(
            f"<tr><th>{to_html(label)}</th><td>{to_html(value)}</td></tr>" for label, value in self.facts
        )
        formula = f"<p>Formula: <code>{to_html(self.formula)}</code></p>" if self.formula else ""
        notes = "".join(f"<li>{to_html(note)}</li>" for note in self.notes)
        return "\n".join(
            part
            for part in (
                f'<div class="dpstats">\n<style>{_CSS}</style>',
                f"<p><strong>{to_html(self.title)}</strong></p>",
                formula,
                f'<table class="facts"><tbody>{facts}</tbody></table>' if facts else "",
                *map(_html_table, self._tables),
                *(f"<p>{to_html(paragraph)}</p>" for paragraph in self.paragraphs),
                _html_table(self.spends) if self.spends is not None else "",
                f"<ol>{notes}</ol>" if notes else "",
                "</div>",
            )
            if part
        )

    def as_markdown(self) -> str:
        """Markdown with tables of pipes; what would be markup in a string is escaped.

        Returns
        -------
        str

        Examples
        --------
        >>> summary = Summary("Least squares", "y ~ x", (), Table(("", "coef"), (("x", "-0.52"),)))
        >>> summary.as_markdown().splitlines()[-1]
        '| x | -0.52 |'
        """
        parts = [f"**{to_markdown(self.title)}**"]
        if self.formula:
            parts.append(f"Formula: {to_markdown(self.formula)}")
        parts += (
            ["\n".join(f"- {to_markdown(label)}: {to_markdown(value)}" for label, value in self.facts)]
            if self.facts
            else []
        )
        parts += [*map(_markdown_table, self._tables), *map(to_markdown, self.paragraphs)]
        parts += [] if self.spends is None else [_markdown_table(self.spends)]
        parts += (
            ["\n".join(f"{i}. {to_markdown(note)}" for i, note in enumerate(self.notes, 1))]
            if self.notes
            else []
        )
        return "\n\n".join(parts) + "\n"

    def as_csv(self) -> str:
        """The tables with commas between the cells, one below the other.

        Returns
        -------
        str

        Examples
        --------
        >>> summary = Summary("Least squares", "y ~ x", (), Table(("", "coef"), (("x", "-0.52"),)))
        >>> summary.as_csv().splitlines()
        [',coef', 'x,-0.52']
        """
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        for table in self._tables:
            writer.writerows((table.header, *table.rows))
        return file.getvalue()

    def as_latex(self) -> str:
        r"""A ``table`` environment for the package `booktabs`; every string is escaped.

        (Before LaTeX of 2020 straight quotes need the package `textcomp`, too.)

        Returns
        -------
        str

        Examples
        --------
        >>> summary = Summary("Least squares", "y ~ x", (), Table(("", "coef"), (("x", "-0.52"),)))
        >>> print(summary.as_latex().splitlines()[2])
        \caption{Least squares}
        """
        facts = "; ".join(f"{to_latex(label)}: {to_latex(value)}" for label, value in self.facts)
        above = [
            f"Formula: {to_latex(self.formula)}" if self.formula else "",
            facts,
            *map(to_latex, self.paragraphs),
        ]
        notes = [f"[{i}] {to_latex(note)}" for i, note in enumerate(self.notes, 1)]
        parts = [r"\begin{table}", r"\centering", rf"\caption{{{to_latex(self.title)}}}", r"\small"]
        for table in self._tables:
            parts += [_latex_table(table), ""]
        parts += [r"\medskip\raggedright\footnotesize"]
        parts += [line + r"\par" for line in above if line]
        if self.spends is not None:
            parts += [r"\medskip", _latex_table(self.spends), "", r"\medskip"]
        return "\n".join([*parts, *(note + r"\par" for note in notes), r"\end{table}"])


class Tabled:
    """What shows itself by the table that its method ``summary()`` makes."""

    __slots__ = ()

    def summary(self) -> "Summary":
        """The table."""
        raise NotImplementedError

    def __str__(self) -> str:
        return str(self.summary())

    def _repr_html_(self) -> str:
        return self.summary().as_html()


def _parts(table: Table, width: int) -> Iterator[Table]:
    """The table, or where that leaves no room for names, parts of it one below the other."""
    lengths = [
        max(text_width(one_line(row[j])) for row in (table.header, *table.rows))
        for j in range(len(table.header))
    ]
    start, room = 1, width - min([_NAMES, *lengths[:1]])
    if table.text_columns != 1 or sum(lengths[1:]) + _GAP * (len(lengths) - 1) <= room:
        yield table
        return
    while start < len(lengths):
        end = start + 1
        while end < len(lengths) and sum(lengths[start : end + 1]) + _GAP * (end + 1 - start) <= room:
            end += 1
        yield replace(
            table,
            header=(table.header[0], *table.header[start:end]),
            rows=tuple((row[0], *row[start:end]) for row in table.rows),
        )
        start = end


def _text_table(table: Table, width: int) -> list[str]:
    columns = [[one_line(row[j]) for row in (table.header, *table.rows)] for j in range(len(table.header))]
    widths = [max(map(text_width, column)) for column in columns]
    text = table.text_columns
    room = width - _GAP * (len(columns) - 1) - sum(widths[text:])
    if text == 1:
        # a name without room beside its numbers stands above them
        columns[0], widths[0] = shorten(columns[0], width), room
    elif sum(widths[:text]) > room:
        widths[:text] = _share(widths[:text], room)
    lines = []
    for cells in zip(*columns, strict=True):
        wrapped = [wrap(c, w) if text > 1 else [c] for c, w in zip(cells[:text], widths, strict=False)]
        for k in range(max(1, *map(len, wrapped)) if wrapped else 1):
            words = [part[k] if k < len(part) else "" for part in wrapped]
            if text == 1 and text_width(words[0]) > room:
                lines.append(words.pop().rstrip())
                words.append("")
            words = [c.ljust(_length(c, w)) for c, w in zip(words, widths, strict=False)]
            numbers = [
                c.rjust(_length(c, w)) if k == 0 else " " * w
                for c, w in zip(cells[text:], widths[text:], strict=True)
            ]
            lines.append((" " * _GAP).join([*words, *numbers]).rstrip())
    return lines


def _share(widths: Iterable[int], room: int) -> list[int]:
    """Cut the widest first, down to a common width."""
    widths, free = list(widths), room
    for left, j in enumerate(sorted(range(len(widths)), key=widths.__getitem__)):
        widths[j] = min(widths[j], free // (len(widths) - left))
        free -= widths[j]
    return widths


def _text_facts(facts: Iterable[tuple[str, str]], width: int) -> list[str]:
    """Label and value pairs down two columns; a pair too wide for half a line takes a line."""
    half = (width - 2 * _GAP) // 2
    facts = [(one_line(label), one_line(value)) for label, value in facts]
    narrow = [f for f in facts if text_width(f[0] + f[1]) + 3 <= half]
    wide = [f for f in facts if f not in narrow]
    cells = [
        label + ":" + value.rjust(_length(value, half - text_width(label) - 1)) for label, value in narrow
    ]
    rows = (len(cells) + 1) // 2
    left, right = cells[:rows], cells[rows:]
    lines = [a + (" " * (width - 2 * half) + right[i] if i < len(right) else "") for i, a in enumerate(left)]
    for label, value in wide:
        lines += _wrap(f"{label}: {value}", width, indent="  ")
    return lines


def _wrap(text: str, width: int, indent: str = "", center: bool = False) -> list[str]:
    lines = wrap(one_line(text), width, indent) or [""]
    return [line.center(_length(line, width)).rstrip() for line in lines] if center else lines


def _length(text: str, width: int) -> int:
    """How many characters of the text, with blanks, take so many columns of a terminal."""
    return width + len(text) - text_width(text)


_CSS = (
    ".dpstats table{border-collapse:collapse;margin:.5em 0}"
    ".dpstats td,.dpstats th{padding:.15em .7em;text-align:right;font-variant-numeric:tabular-nums}"
    ".dpstats .t{text-align:left;font-weight:normal}"
    ".dpstats thead th,.dpstats thead .t{border-bottom:1px solid;font-weight:bold}"
    ".dpstats .facts th{text-align:left;font-weight:normal}"
    ".dpstats p,.dpstats ol{max-width:46em;margin:.3em 0}"
)


def _html_table(table: Table) -> str:
    def cell(j: int, tag: str, shown: str, whole: str) -> str:
        kind = ' class="t"' if j < table.text_columns else ""
        title = f' title="{to_html(whole)}"' if shown != whole else ""
        return f"<{tag}{kind}{title}>{to_html(shown)}</{tag}>"

    names = [row[0] for row in table.rows]
    header = "".join(cell(j, "th", c, c) for j, c in enumerate(table.header))
    body = "\n".join(
        "<tr>"
        + cell(0, "td", name, row[0])
        + "".join(cell(j, "td", c, c) for j, c in enumerate(row) if j)
        + "</tr>"
        for name, row in zip(shorten(names, 60), table.rows, strict=True)
    )
    return f"<table><thead><tr>{header}</tr></thead>\n<tbody>\n{body}\n</tbody></table>"


def _markdown_table(table: Table) -> str:
    rules = [":---" if j < table.text_columns else "---:" for j in range(len(table.header))]
    rows = [[to_markdown(cell) for cell in row] for row in (table.header, *table.rows)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (rows[0], rules, *rows[1:]))


def _latex_table(table: Table) -> str:
    text = table.text_columns
    kind = "l" if text == 1 else f"p{{{0.6 / text:.2g}\\linewidth}}" * text
    align = kind + "r" * (len(table.header) - text)
    names = [row[0] for row in table.rows]
    if text == 1:
        names = shorten(names, 60)
    rows = [(name, *row[1:]) for name, row in zip(names, table.rows, strict=True)]
    # The empty group keeps a row that starts with [ or * from becoming an argument of the line before.
    header, *body = ["{}" + " & ".join(map(to_latex, row)) + r" \\" for row in (table.header, *rows)]
    begin, end = rf"\begin{{tabular}}{{{align}}}", r"\end{tabular}"
    return "\n".join([begin, r"\toprule", header, r"\midrule", *body, r"\bottomrule", end])
