import math
import re
from decimal import Decimal
from html.parser import HTMLParser

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpstats._format import (
    MISSING,
    format_p,
    format_row,
    format_statistic,
    format_value,
    shorten,
    text_width,
    wrap,
)
from dpstats._markup import code_span, to_latex
from dpstats._text import WIDTH, Summary, Table

NASTY = [
    "<b>&\"'</b>",
    "a_b%c$d#e{f}~g^h\\i",
    "x\ny\tz\x1b[31m",
    "[T.a]",
    "* star",
    "größe",
    "",
    "C(a, levels=['(', 'b'])[T.b]",
    "収入" * 30,
    "e\u0301te\u0301 " * 30,
]

numbers = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0.0, -0.0, 1e12, -1e12, 1e-12, 5e-324, 1.7e308, 99999.5, 0.99995, 9.9999999e9]),
)
texts = st.text(max_size=150) | st.sampled_from(NASTY) | st.text("ab_ [](),.'", max_size=150)


@st.composite
def summaries(draw):
    rows = []
    for name in draw(st.lists(texts, max_size=6)):
        estimate, se, low, high, z = (draw(numbers) for _ in range(5))
        estimate, se, low, high = format_row(estimate, abs(se), low, high)
        p = draw(st.floats(0, 1) | st.just(math.nan))
        rows.append((name, estimate, se, format_statistic(z), format_p(p), low, high))
    spends = st.tuples(texts, texts, numbers.map(lambda x: f"{x:.3g}"), numbers.map(lambda x: f"{x:.3g}"))
    return Summary(
        title=draw(texts),
        formula=draw(texts),
        facts=tuple(draw(st.lists(st.tuples(texts, texts), max_size=5))),
        coefficients=Table(("", "coef", "std err", "z", "P>|z|", "[0.025", "0.975]"), tuple(rows)),
        paragraphs=tuple(draw(st.lists(texts, max_size=3))),
        spends=draw(st.none() | st.lists(spends, max_size=4).map(
            lambda r: Table(("Step", "Mechanism", "eps", "delta"), tuple(r), text_columns=2)
        )),
        notes=tuple(draw(st.lists(texts, max_size=3))),
    )  # fmt: skip


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(summaries())
def test_no_line_is_wider_than_78_columns_whatever_the_names_and_numbers(summary):
    lines = summary.as_text().split("\n")
    assert max(map(text_width, lines)) == WIDTH
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", summary.as_text())
    assert lines[-1] == "=" * WIDTH


class _Strict(HTMLParser):
    """Collects text, and fails on a tag that is not ours or is not closed in order."""

    VOID, ALLOWED = (
        set(),
        {"div", "style", "strong", "p", "code", "table", "thead", "tbody", "tr", "th", "td", "ol", "li"},
    )

    def __init__(self):
        super().__init__()
        self.open, self.text = [], []

    def handle_starttag(self, tag, attrs):
        assert tag in self.ALLOWED and {k for k, _ in attrs} <= {"class", "title"}
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(summaries())
def test_html_is_well_formed_and_nothing_in_a_string_becomes_markup(summary):
    parser = _Strict()
    parser.feed(summary.as_html())
    parser.close()
    assert parser.open == []
    text = "".join(parser.text)
    for note in summary.notes:
        assert re.sub(r"[\s\x00-\x1f\x7f-\x9f]+", " ", note) in text


def _tex_is_balanced(source):
    source = re.sub(r"\\[\\{}&%$#_]", " ", source.replace("\\\\\n", "\n"))
    depth = 0
    for c in source:
        depth += (c == "{") - (c == "}")
        assert depth >= 0
    assert depth == 0 and source.count("$") % 2 == 0
    assert not re.search(r"--|,,|``|''|[?!]`", source)
    for c in "#~^_":
        assert c not in re.sub(r"\^\{-?\d+\}", "", source)
    environments = re.findall(r"\\(begin|end)\{(\w+)\}", source)
    stack = []
    for kind, name in environments:
        if kind == "begin":
            stack.append(name)
        else:
            assert stack.pop() == name
    assert stack == []


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(summaries())
def test_latex_is_balanced_and_nothing_in_a_string_becomes_a_command(summary):
    _tex_is_balanced(summary.as_latex())


def test_the_latex_check_sees_an_unescaped_string():
    for bad in ("a_b", "a{", "5 $", "x^2", "a--b", "``q''"):
        with pytest.raises(AssertionError):
            _tex_is_balanced(bad)


def test_markdown_of_a_small_table():
    table = Table(("", "coef", "P>|z|"), (("a_b", "-1.20", "<0.001"), ("[x]", "1.5e-07", MISSING)))
    summary = Summary("Title", "y ~ a*b", (("Rows", "1,234"),), table, ("50 % `more`",), table, ("A\nnote.",))
    assert (
        summary.as_markdown()
        == r"""**Title**

Formula: y \~ a\*b

- Rows: 1,234

|  | coef | P\>\|z\| |
| :--- | ---: | ---: |
| a\_b | -1.20 | \<0.001 |
| \[x\] | 1.5e-07 | - |

50 % \`more\`

|  | coef | P\>\|z\| |
| :--- | ---: | ---: |
| a\_b | -1.20 | \<0.001 |
| \[x\] | 1.5e-07 | - |

1. A note.
"""
    )


def test_latex_of_a_small_table():
    table = Table(("", "coef", "P>|z|"), (("a_b", "-1.20", "<0.001"), ("[x]", "1.5e-07", MISSING)))
    assert (
        Summary("Title", "y ~ a_b", (("Rows", "1,234"),), table, ("50% & more",)).as_latex()
        == r"""\begin{table}
\centering
\caption{Title}
\small
\begin{tabular}{lrr}
\toprule
{} & coef & P\textgreater{}\textbar{}z\textbar{} \\
\midrule
{}a\_b & $-1.20$ & $<0.001$ \\
{}[x] & $1.5 \times 10^{-7}$ & - \\
\bottomrule
\end{tabular}

\medskip\raggedright\footnotesize
Formula: y \textasciitilde{} a\_b\par
Rows: $1{,}234$\par
50\% \& more\par
\end{table}"""
    )


def test_latex_joins_no_characters_and_keeps_apostrophes():
    assert to_latex("10--20") == "10-{}-20" and to_latex("a---b") == "a-{}-{}-b"
    assert to_latex("`q`, 'r'") == (
        r"\textasciigrave{}q\textasciigrave{}, \textquotesingle{}r\textquotesingle{}"
    )
    assert to_latex("A row's part, delta = 1e-06") == "A row's part, delta = 1e-06"


def test_code_in_markdown_ends_where_it_should():
    assert [code_span(text) for text in ("", "a\nb", "a``b`", " a ", "  ")] == [
        "` `", "`a b`", "``` a``b` ```", "`  a  `", "` `",
    ]  # fmt: skip


def test_all_formats_have_all_tables():
    one, other = Table(("", "coef"), (("x", "1.00"),)), Table(("Level", "share"), (("a", "0.25"),))
    summary = Summary("Title", "", (), one, ("Words.",), further=(other,))
    for text in (summary.as_text(), summary.as_html(), summary.as_markdown(), summary.as_latex()):
        assert "1.00" in text and "0.25" in text
    assert summary.as_csv().endswith("a,0.25\n")
    assert summary.as_markdown().index("0.25") < summary.as_markdown().index("Words.")


def test_spends_wrap_and_notes_hang():
    spends = Table(
        ("Step", "Mechanism", "eps", "delta"),
        (
            ("count", "Laplace", "0.1", "0"),
            ("test and models " * 3, "a mechanism with a long name " * 3, "0.9", "1e-06"),
        ),
        text_columns=2,
    )
    table = Table(("", "coef"), (("x", "1.00"),))
    text = Summary("T", "", (), table, (), spends, ("a note " * 15,)).as_text()
    assert (
        text
        == """\
                                      T
==============================================================================
==============================================================================
                                                                          coef
------------------------------------------------------------------------------
x                                                                         1.00
==============================================================================
------------------------------------------------------------------------------
Step                              Mechanism                         eps  delta
count                             Laplace                           0.1      0
test and models test and models   a mechanism with a long name a    0.9  1e-06
test and models                   mechanism with a long name a
                                  mechanism with a long name
------------------------------------------------------------------------------
[1] a note a note a note a note a note a note a note a note a note a note a
    note a note a note a note a note
=============================================================================="""
    )


# -- numbers -----------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(numbers, numbers.map(abs))
@example(1e12, 3e3)
@example(9.9999e9, 1e-3)
@example(-1.5e-8, 1e-9)
@example(1234.5, 1e-9)
def test_a_printed_number_is_within_rounding_of_the_number(estimate, se):
    texts = format_row(estimate, se)
    for x, text in zip((estimate, se), texts, strict=True):
        assert len(text) <= 10
        if math.isnan(x):
            assert text == MISSING
            continue
        if math.isinf(x):
            assert float(text) == x
            continue
        # Below a hundredth of the standard error, or to four significant digits (three with a long exponent).
        relative = Decimal("5e-4") if 1e-99 < abs(x) < 1e99 else Decimal("6e-3")
        # What is next to 0 is 0.
        error = max(Decimal("0.006") * (Decimal(se) if math.isfinite(se) else 0), relative * abs(Decimal(x)))
        error = max(error, Decimal("1e-40"))
        assert abs(Decimal(text) - Decimal(x)) <= error


def test_an_interval_says_how_many_digits_an_estimate_has():
    nan = math.nan
    assert format_row(1.362e-115, nan, -2048.0, 2048.0) == ["0.0", "-", "-2048.0", "2048.0"]
    assert format_row(2.19e-242, nan, -2.719e-05, 2.7188e-05)[0] == "0"
    assert format_row(4.0615e-44, nan) == ["0", "-"] and format_row(6.62e-34, nan)[0] == "6.6200e-34"
    # a narrow one gives no more than five
    assert format_row(1.27714, nan, 1.2771, 1.2772) == ["1.2771", "-", "1.2771", "1.2772"]


@pytest.mark.parametrize(
    ("x", "se", "shown"),
    [
        (8440.0512, 18.93, ["8440.1", "18.9"]),
        (8440.0512, 1893.0, ["8440", "1893"]),
        (0.000123456, 0.0000345, ["0.0001235", "0.0000345"]),
        (1.5e-9, 3.21e-10, ["1.500e-09", "3.21e-10"]),
        (123456789.0, 1234.5, ["123456789", "1234"]),
        (1e12, 1.0, ["1.0000e+12", "1.00"]),
        (-1e12, 1.0, ["-1.000e+12", "1.00"]),
        (0.0, 0.5, ["0.000", "0.500"]),
        (0.0, 0.0, ["0.0000", "0.0000"]),
        (3.0, 0.0, ["3.0000", "0.0000"]),
        (math.nan, math.nan, ["-", "-"]),
        (math.inf, math.nan, ["inf", "-"]),
        (-1e-9, 0.5, ["0.000", "0.500"]),
        (-0.0, 1234.0, ["0", "1234"]),
    ],
)
def test_decimals_follow_the_standard_error(x, se, shown):
    assert format_row(x, se) == shown


def test_what_is_rounded_to_zero_has_no_minus_sign():
    assert format_statistic(-0.001) == "0.00" and format_value(-0.0) == "0"
    assert format_row(0.5, math.nan, -1e-6, -0.4) == ["0.50000", "-", "0.00000", "-0.40000"]


def test_statistics_and_values_stay_narrow():
    for x in (0.0, -99998.99, 99999.0, -1e300, 1e-300, math.inf, math.nan):
        assert len(format_statistic(x)) <= 9
        assert len(format_value(x)) <= 10


# -- names -------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(st.lists(texts, unique=True, max_size=30), st.integers(12, 40))
@pytest.mark.slow
def test_shortened_names_fit_and_stay_distinct(names, width):
    short = shorten(names, width)
    assert all(text_width(s) <= width for s in short)
    assert len(set(short)) == len(names)
    assert all(s == n for s, n in zip(short, names, strict=True) if text_width(n) <= width)


def test_arguments_go_before_the_level():
    long = "'" + "x" * 60 + "'"
    names = [
        f"C(cut, levels=[{long}, 'b (c)'])[T.b, c]",
        f"bs(z, knots=({long}, 2), degree=3)[0]:w",
        "a" * 50,
    ]
    assert shorten(names, 30) == ["C(cut,..)[T.b, c]", "bs(z,..)[0]:w", "a" * 12 + ".." + "a" * 16]
    assert shorten(["f(x, 'unclosed" + "y" * 40], 20)[0].startswith("f(x, ")


def test_wide_characters_take_two_columns_of_a_terminal():
    names = ("世帯の収入", "e\u0301ducation", "x", "市区町村の名前" * 8)
    spends = Table(("Step", "Mechanism", "eps"), (("行の数 " * 12, "ラプラス雑音" * 9, "0.1"),), 2)
    parts = ("収入の回帰分析", "収入 ~ " + "世帯の人数 + " * 12 + "x", (("従属変数", "収入"), ("n", "1")))
    table = Table(("", "coef"), tuple((name, "1.00") for name in names))
    lines = Summary(*parts, table, ("説明の文" * 30,), spends, ("注の文" * 40,)).as_text().split("\n")
    columns = [sum(2 if c > "\u2e80" else c != "\u0301" for c in line) for line in lines]
    assert max(columns) == WIDTH
    ends = [n for n, line in zip(columns, lines, strict=True) if line.endswith(("1.00", "0.1"))]
    assert ends == [WIDTH] * 5
    title = lines[0]
    assert len(title) - len(title.lstrip()) == (WIDTH - 14) // 2
    assert "".join("".join(lines).split()).count("説明の文" * 30) == 1


def test_words_break_where_a_line_has_no_room():
    assert wrap("a 収入収入 bc", 6, " ") == ["a 収入", " 収入", " bc"]
    assert wrap("収", 1) == ["収"]


@pytest.mark.parametrize("width", [40, 50, 60, 66, 77, 78, 120])
def test_a_narrow_page_has_the_columns_in_parts_each_with_the_names(width):
    header = ("", "coef", "std err", "z", "P>|z|", "[0.025", "0.975]")
    rows = (
        (
            "a_rather_long_name_of_a_column",
            "-1.234e+10",
            "1.234e-07",
            "-4.5e+07",
            "<0.001",
            "0.00010209",
            "12346",
        ),
        ("x", "-0.25", "n.d.", "-", "-", "n.d.", "n.d."),
    )
    text = Summary("Title", "y ~ x", (), Table(header, rows)).as_text(width)
    lines = text.split("\n")
    assert max(map(len, lines)) <= width
    # a name that is too long for its place stands above its numbers
    joined = re.sub(rf"(?m)^({rows[0][0][:width]})\n", r"\1 ", text).split("\n")
    for name, *numbers in rows:
        parts = [line.split()[1:] for line in joined if line.startswith(f"{name} ")]
        assert [number for part in parts for number in part] == numbers
    assert (len(lines) > 11) == (width < 74)
