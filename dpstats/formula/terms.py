"""Formula text to terms: patsy's parser and its algebra of terms, with bounds on their size.

Nothing here looks at what a factor says (:mod:`dpstats.formula.factors` does), and nothing is evaluated.
"""

import ast
import re
from collections.abc import Container, Iterator
from contextlib import contextmanager
from math import comb
from typing import Any

import patsy
from patsy.desc import Evaluator, ModelDesc
from patsy.parse_formula import ParseNode, Token, parse_formula

from dpstats.data.schema import Schema, in_formula
from dpstats.errors import FormulaError, SchemaError
from dpstats.formula.grammar import ALLOWED, Name, names_in, parse, translate

__all__ = ["parse_terms", "with_offset"]

MAX_LENGTH = 100_000
MAX_TERMS = 2_000


def parse_terms(
    formula: str, schema: Schema, aside: Container[object]
) -> tuple[list[patsy.Term], list[patsy.Term]]:
    """Return the terms of both sides of a formula.

    Parameters
    ----------
    formula : str
    schema : Schema
        Its column names stand for ``.`` on the right-hand side.
    aside : collection of str
        Columns with a part of their own, which ``.`` does not stand for.

    Returns
    -------
    lhs, rhs : list of patsy.Term
        Each term is a tuple ``.factors`` of objects with a ``.name()``; no factors: the intercept.

    Raises
    ------
    FormulaError
        If patsy cannot parse it, it has no response or one that is a term, too, or it has too many terms.
    """
    if len(formula) > MAX_LENGTH:
        raise FormulaError(f"the formula has more than {MAX_LENGTH:,} characters.")
    with _parsing(formula):
        tree = _tree(formula)
        _expand_dot(tree, schema, aside)
        _check_responses(tree.args[0], formula)
        if _term_bound(tree.args[0]) + _term_bound(tree.args[1]) > MAX_TERMS:
            raise FormulaError(f"the formula {_short(formula)} has more than {MAX_TERMS:,} terms.")
        terms = _Evaluator().run(tree)
        response = _quoted(terms.lhs_termlist[0].name())
        if any(_quoted(term.name()) == response for term in terms.rhs_termlist):
            raise FormulaError(
                f"the formula {_short(formula)} has its response, {response!r}, among its terms, too."
            )
    return terms.lhs_termlist, terms.rhs_termlist


def _quoted(code: str) -> str:
    """A factor's code, or the name that it quotes."""
    found = re.fullmatch(r"Q\((['\"])(.*)\1\)", code)
    return found[2] if found else code


def with_offset(formula: str, expression: str) -> str:
    """The formula with a second response, from which an offset is read: one factor, ``I(expression)``, in
    which signs are arithmetic and not the algebra of terms.
    """
    with _parsing(formula):
        tilde = _tree(formula).token.origin
    text, at = tilde.code, tilde.start
    return f"{text[:at].rstrip()} + I({ast.unparse(parse(expression.strip()))}) {text[at:]}"


@contextmanager
def _parsing(formula: str) -> Iterator[None]:
    try:
        yield
    except (FormulaError, SchemaError):
        raise
    except patsy.PatsyError as error:
        raise _unparsable(formula, f": {error.message}") from None
    except Exception:
        # Some malformed texts trip assertions of the tokenizer. There are no data here to betray.
        raise _unparsable(formula, "") from None


def _tree(formula: str) -> ParseNode:
    """The parse tree of a formula of two sides."""
    tree = parse_formula(formula)
    if len(tree.args) != 2:
        raise FormulaError(
            f"the formula {_short(formula)} has no response; write 'response ~ terms', or "
            "'y ~ 1' for a column alone."
        )
    return tree


def _check_responses(lhs: ParseNode, formula: str) -> None:
    """Responses are factors with + between them: no other algebra of terms is what it looks like."""
    nodes = list(_children_first(lhs))
    codes = [code for node in nodes if (code := _text(node)) is not None]
    # (a second ~ is refused as one)
    if len(set(codes)) < len(codes) or not all(node.type in ("+", "PYTHON_EXPR", "~") for node in nodes):
        raise FormulaError(
            f"the formula {_short(formula)} must begin with a column or an expression, or different ones as "
            "in 'y1 + y2 ~ 1'; arithmetic is written I(a - b)."
        )


def _unparsable(formula: str, why: str) -> FormulaError:
    hint = " Crossings are written (a + b)**2, not ^, and the power of a column I(age**2)." * ("^" in formula)
    # patsy reads these names as numbers
    if named := re.search(r"(?<![\w.'\"])(inf|infinity|nan)(?![\w.('\"])", formula, re.IGNORECASE):
        hint += f" A column of the name {named[0]} is written Q('{named[0]}')."
    return FormulaError(f"the formula {_short(formula)} cannot be parsed{why}.{hint}{ALLOWED}.")


def _short(formula: str) -> str:
    text = " ".join(formula.split())
    return repr(text if len(text) <= 80 else text[:77] + "...")


class _Evaluator(Evaluator):
    """patsy's evaluator, children first, so that long sums do not exhaust Python's stack."""

    def run(self, tree: ParseNode) -> Any:
        self._done: dict[int, Any] = {}
        for node in _children_first(tree):
            if node.type != "NUMBER":
                if node.type == "-" and len(node.args) == 2:
                    self._check_minus(*node.args)
                self._done[id(node)] = super().eval(node, require_evalexpr=False)
                if node.type == "**" and node.args[1].token.extra != "1":
                    self._check_power(node.args[0])
        return self._done[id(tree)]

    def eval(self, tree: ParseNode, require_evalexpr: bool = True) -> Any:
        if tree.type == "NUMBER":
            return super().eval(tree)
        result = self._done[id(tree)]
        if isinstance(result, ModelDesc):
            raise patsy.PatsyError("~ can only be used once, and only at the top level", tree)
        return result

    def _check_power(self, base: ParseNode) -> None:
        """A sum of terms is crossed with itself: ``age**2`` would be ``age``, without a word."""
        terms = self.eval(base).terms
        if len(terms) == 1:
            name = ":".join(factor.name() for factor in terms[0].factors) or "1"
            raise FormulaError(
                f"the formula crosses {name!r} with itself, which is {name!r} again; the power of a column "
                "is written I(age**2)."
            )

    def _check_minus(self, *sides: ParseNode) -> None:
        """Nothing is taken away but what is there, or a column: ``z - z.mean()`` is not meant to be ``z``."""
        left, right = (self.eval(node).terms for node in sides)
        for term in right:
            codes = [factor.name() for factor in term.factors]
            if term not in left and not all(isinstance(translate(parse(c), c), Name) for c in codes):
                raise FormulaError(
                    f"the formula takes away {':'.join(codes)!r}, which is not in it; - takes terms away, "
                    "and a difference is written I(a - b)."
                )


def _children_first(tree: ParseNode) -> Iterator[ParseNode]:
    order, stack = [], [tree]
    while stack:
        node = stack.pop()
        order.append(node)
        stack.extend(node.args)
    return reversed(order)


def _expand_dot(tree: ParseNode, schema: Schema, aside: Container[object]) -> None:
    """Replace ``.`` on the right-hand side by the columns that the left-hand side does not name."""
    dots = [node for node in _children_first(tree) if _text(node) == "."]
    if not dots:
        return
    lhs = list(_children_first(tree.args[0]))
    if any(node in lhs for node in dots):
        raise FormulaError("'.' stands for the other columns, so it can only be used to the right of '~'.")
    codes = [code for node in lhs if (code := _text(node)) is not None]
    responses = {name for code in codes for name in names_in(translate(parse(code), code))}
    names = [name for name in schema.whole() if name not in aside and name not in responses]
    if not names:
        raise FormulaError("'.' stands for the other columns, but there are none.")
    for node in dots:
        expanded = _leaf(in_formula(names[0]), node.origin)
        for name in names[1:]:
            plus = Token("+", node.origin)
            expanded = ParseNode("+", plus, [expanded, _leaf(in_formula(name), node.origin)], node.origin)
        node.type, node.token, node.args = expanded.type, expanded.token, expanded.args


def _leaf(text: str, origin: Any) -> ParseNode:
    return ParseNode("PYTHON_EXPR", Token("PYTHON_EXPR", origin, extra=text), [], origin)


def _text(node: ParseNode) -> str | None:
    return node.token.extra if node.type == "PYTHON_EXPR" else None


def _term_bound(tree: ParseNode) -> int:
    """Return an upper bound of the number of terms of a parse tree, before they are made."""
    bound: dict[int, int] = {}
    for node in _children_first(tree):
        sizes = [bound[id(child)] for child in node.args]
        if node.type == "PYTHON_EXPR":
            size = 1
        elif node.type in ("*", ":", "/") and len(sizes) == 2:
            a, b = sizes
            size = a * b if node.type == ":" else a + b + (a * b if node.type == "*" else 0)
        elif node.type == "**" and len(sizes) == 2:
            size = _power_bound(sizes[0], getattr(node.args[1].token, "extra", None))
        else:
            size = sum(sizes)
        bound[id(node)] = min(size, MAX_TERMS + 1)
    return bound[id(tree)]


def _power_bound(size: int, power: str | None) -> int:
    most = int(power) if power is not None and power.isdigit() and len(power) < 10 else size
    total = 0
    for k in range(1, min(most, size) + 1):
        total += comb(size, k)
        if total > MAX_TERMS:
            break
    return total
