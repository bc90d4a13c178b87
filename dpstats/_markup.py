"""A text as a line of HTML, Markdown or LaTeX in which nothing of it is markup."""

import html
import re

__all__ = ["code_span", "one_line", "to_html", "to_latex", "to_markdown"]

_CONTROL = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
_MARKS = re.compile(r"([\\`*_\[\]<>|$~#&])")
_TEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "`": r"\textasciigrave{}",
    **{c: "\\" + c for c in "&%$#_"},
}  # fmt: skip
_LIGATURE = re.compile(r"([-,])(?=\1)")
_QUOTE = re.compile(r"(?<![^\W\d_])'|'(?![^\W\d_])")
"""A quote that is no apostrophe between letters."""
_NUMBER = re.compile(r"(<?-?\d[\d,]*(?:\.\d+)?)(?:e([-+])0*(\d+))?")


def one_line(text: str) -> str:
    """`text` without line breaks and control characters, which a column name may hold.

    Examples
    --------
    >>> one_line("new\\nline")
    'new line'
    """
    return _CONTROL.sub(" ", text)


def to_html(text: str) -> str:
    """`text` in HTML.

    Examples
    --------
    >>> to_html("a < b")
    'a &lt; b'
    """
    return html.escape(one_line(text))


def to_markdown(text: str) -> str:
    r"""`text` in the prose of Markdown.

    Examples
    --------
    >>> print(to_markdown("a*b"))
    a\*b
    """
    return _MARKS.sub(r"\\\1", one_line(text))


def code_span(text: str) -> str:
    """`text` as code in the prose of Markdown: between more backticks than it has in a row.

    Examples
    --------
    >>> code_span("y ~ x"), code_span("a`b"), code_span("`t`")
    ('`y ~ x`', '``a`b``', '`` `t` ``')
    """
    text = one_line(text) or " "
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    # Markdown takes a blank off both ends where there are two
    pad = " " if "`" in (text[0], text[-1]) or (text[0] == text[-1] == " " and text.strip()) else ""
    return fence + pad + text + pad + fence


def to_latex(text: str) -> str:
    r"""`text` in LaTeX, a number in mathematics; no two characters become one, as ``--`` would.

    Examples
    --------
    >>> print(to_latex("a_b, 10--20"), to_latex("-1.5e-07"))
    a\_b, 10-{}-20 $-1.5 \times 10^{-7}$
    """
    text = one_line(text)
    number = _NUMBER.fullmatch(text)
    if number:
        digits, sign, exponent = number.groups()
        power = f" \\times 10^{{{sign.replace('+', '')}{exponent}}}" if exponent else ""
        return f"${digits.replace(',', '{,}')}{power}$"
    escaped = "".join(_TEX.get(c, c) for c in text)
    return _QUOTE.sub(r"\\textquotesingle{}", _LIGATURE.sub(r"\1{}", escaped))
