"""Relations between the columns of a table that hold before a move and have to hold after it, in the user's words.

A relation is a comparison of two linear expressions (``digits + letters <= length``, ``total = a + b``) or says what a
column is derived from: the ratio of two linear expressions (``share = digits / length``) or an increasing function of
one (``log_amount = log(amount)``). Names that are no identifiers stand in backticks, as do column indices. Words are
read by Python's own parser and never run.
"""

import ast
import math
import re
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from hardwood.quoting import quote
from hardwood.table import Schema
from hardwood.threat.placed_relations import FUNCTIONS, Derived, Linear, PlacedExpression, PlacedRelations
from hardwood.threat.resolve import explain_column
from hardwood.threat.spelling import read_real

_QUOTED = re.compile(r"`([^`]*)`")
_SINGLE_EQUALS = re.compile(r"(?<![<>=!])=(?!=)")
_STAND_IN = "quoted_column_{}_"


class Expression(NamedTuple):
    """A sum of columns with coefficients, and a constant."""

    terms: dict[str, float]
    constant: float

    def plus(self, other: "Expression", factor: float = 1.0) -> "Expression":
        """Return the sum of this and a multiple of another."""
        terms = dict(self.terms)
        for name, coefficient in other.terms.items():
            terms[name] = terms.get(name, 0.0) + factor * coefficient
        kept = {name: coefficient for name, coefficient in terms.items() if coefficient != 0.0}
        return Expression(kept, self.constant + factor * other.constant)

    def times(self, factor: float) -> "Expression":
        """Return a multiple."""
        return Expression({}, 0.0).plus(self, factor)


class Derivation(NamedTuple):
    """What stands on the right of a column that is derived: ``scale * function(inner) / below + offset``."""

    function: str | None  # None for a ratio, `inner / below`
    inner: Expression
    below: Expression | None
    scale: float = 1.0
    offset: float = 0.0


class Relation(NamedTuple):
    """One comparison: `left` is at most, or equal to, 0; or `target` is what is derived."""

    text: str
    left: Expression
    is_equality: bool
    target: str | None = None
    derivation: Derivation | None = None


def read_relations(relations: Any) -> tuple[str, ...]:
    """Return relations as strings, after parsing each; ValueError names the first that is not understood."""
    if relations is None:
        return ()
    if isinstance(relations, (str, bytes)) or not isinstance(relations, Iterable):
        raise ValueError(
            f"relations={quote(relations)}: expected a list of strings such as 'digits + letters <= length'"
        )
    texts = []
    for text in relations:
        if not isinstance(text, str):
            raise ValueError(f"relations: {quote(text)} is not a string such as 'digits + letters <= length'")
        parse_relation(text)
        texts.append(str(text))
    return tuple(dict.fromkeys(texts))


def parse_relation(text: str) -> list[Relation]:
    """Return the comparisons that a relation is made of: one, or several if it is a chain.

    Examples
    --------
    >>> [relation] = parse_relation("2 * a - b <= `c d` + 3")
    >>> relation.left
    Expression(terms={'a': 2.0, 'b': -1.0, 'c d': -1.0}, constant=-3.0)
    """
    quoted = _QUOTED.findall(text)
    numbers = iter(range(len(quoted)))
    plain = _QUOTED.sub(lambda _: _STAND_IN.format(next(numbers)), text)
    names = {_STAND_IN.format(k): name for k, name in enumerate(quoted)}
    try:
        tree = ast.parse(_SINGLE_EQUALS.sub("==", plain.strip()), mode="eval").body
        if not isinstance(tree, ast.Compare):
            raise _explain(text, "expected a comparison by <=, >= or =")
        reader = _Reader(text, names)
        sides = [tree.left, *tree.comparators]
        found = [reader.compare(a, op, b) for a, op, b in zip(sides[:-1], tree.ops, sides[1:], strict=True)]
    except SyntaxError:
        raise _explain(
            text, "not understood; expected something like 'digits + letters <= length', names that are no identifiers "
            "in backticks: `number of digits`"
        ) from None  # fmt: skip
    except (RecursionError, MemoryError):
        raise _explain(text[:50] + "...", "nested too deep") from None
    return found


class _Reader:
    """Reads the syntax tree of one relation."""

    def __init__(self, text: str, names: dict[str, str]) -> None:
        self.text, self.names = text, names

    def compare(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> Relation:
        """Read one comparison."""
        if isinstance(operator, (ast.Lt, ast.Gt)):
            raise _explain(self.text, "expected <=, >= or =, not < or >; of whole numbers, a < b is a <= b - 1")
        if not isinstance(operator, (ast.LtE, ast.GtE, ast.Eq)):
            raise _explain(self.text, "expected a comparison by <=, >= or =")
        a, b = self.read(left), self.read(right)
        if isinstance(b, Expression) and isinstance(a, Derivation):
            a, b = b, a
        if isinstance(b, Derivation):
            return self._derive(a, operator, b)
        assert isinstance(a, Expression)
        difference = b.plus(a, -1.0) if isinstance(operator, ast.GtE) else a.plus(b, -1.0)
        if not difference.terms:
            raise _explain(self.text, "no column is left in it; a column without a name is its index in backticks: `0`")
        if not all(map(math.isfinite, (*difference.terms.values(), difference.constant))):
            raise _explain(self.text, "its numbers are out of range")
        return Relation(self.text, difference, isinstance(operator, ast.Eq))

    def _derive(self, target: Expression | Derivation, operator: ast.cmpop, right: Derivation) -> Relation:
        named = isinstance(target, Expression) and [*target.terms.values()] == [1.0] and target.constant == 0.0
        if not named or not isinstance(operator, ast.Eq):
            raise _explain(
                self.text, "not linear; a ratio or a function of columns can only say what one column is derived from, "
                "as in 'share = digits / length' or 'log_amount = log(amount)'; "
                "a limit of a ratio can be said as 'digits <= 0.5 * length'"
            )  # fmt: skip
        assert isinstance(target, Expression)
        [name] = target.terms
        if name in right.inner.terms or (right.below is not None and name in right.below.terms):
            raise _explain(self.text, f"column {quote(name)} is derived from itself")
        sums = [right.inner]
        if right.below is not None:
            sums += [right.below, right.inner.times(right.scale).plus(right.below, right.offset)]
        numbers = [
            right.scale,
            right.offset,
            *(number for one in sums for number in (*one.terms.values(), one.constant)),
        ]
        if right.scale == 0.0 or not all(map(math.isfinite, numbers)):
            raise _explain(self.text, "its numbers are out of range")
        return Relation(self.text, Expression({}, 0.0), True, name, right)

    def read(self, node: ast.expr) -> Expression | Derivation:
        """Read an expression: linear, or a number plus a multiple of a ratio or of a function."""
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
            return Expression({}, read_real(node.value, f"relations: {quote(self.text)}"))
        if isinstance(node, ast.Name):
            return Expression({self.names.get(node.id, node.id): 1.0}, 0.0)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            return self._scale(self.read(node.operand), -1.0 if isinstance(node.op, ast.USub) else 1.0)
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div)):
            a, b = self.read(node.left), self.read(node.right)
            if isinstance(node.op, (ast.Add, ast.Sub)):
                return self._add(a, b, 1.0 if isinstance(node.op, ast.Add) else -1.0)
            return self._multiply(a, b) if isinstance(node.op, ast.Mult) else self._divide(a, b)
        if isinstance(node, ast.Attribute):
            raise _explain(self.text, "a column name that is no identifier has to stand in backticks: `a.b`")
        raise _explain(
            self.text, f"{quote(ast.unparse(node))} is not understood; expected columns, numbers, +, -, *, /, and the "
            f"functions {', '.join(FUNCTIONS)}"
        )  # fmt: skip

    def _call(self, node: ast.Call) -> Derivation:
        name = node.func.id if isinstance(node.func, ast.Name) else ast.unparse(node.func)
        if name not in FUNCTIONS:
            raise _explain(self.text, f"there is no function {quote(name)}; the functions are {', '.join(FUNCTIONS)}")
        if len(node.args) != 1 or node.keywords:
            raise _explain(self.text, f"{name} takes one expression")
        inner = self.read(node.args[0])
        if not isinstance(inner, Expression) or not inner.terms:
            raise _explain(self.text, f"{name} takes a linear expression of columns")
        return Derivation(name, inner, None)

    def _scale(self, value: Expression | Derivation, factor: float) -> Expression | Derivation:
        if isinstance(value, Expression):
            return value.times(factor)
        return value._replace(scale=factor * value.scale, offset=factor * value.offset)

    def _add(self, a: Expression | Derivation, b: Expression | Derivation, sign: float) -> Expression | Derivation:
        if isinstance(a, Expression) and isinstance(b, Expression):
            return a.plus(b, sign)
        number, derived = (a, self._scale(b, sign)) if isinstance(a, Expression) else (self._scale(b, sign), a)
        if not isinstance(number, Expression) or number.terms or not isinstance(derived, Derivation):
            raise _explain(self.text, "not linear; only a number can be added to a ratio or a function of columns")
        return derived._replace(offset=derived.offset + number.constant)

    def _multiply(self, a: Expression | Derivation, b: Expression | Derivation) -> Expression | Derivation:
        if isinstance(b, Expression) and not b.terms:
            a, b = b, a
        if not isinstance(a, Expression) or a.terms:
            raise _explain(self.text, "not linear; columns can be multiplied by numbers only, not by each other")
        return self._scale(b, a.constant)

    def _divide(self, a: Expression | Derivation, b: Expression | Derivation) -> Expression | Derivation:
        if isinstance(b, Expression) and not b.terms:
            if b.constant == 0.0:
                raise _explain(self.text, "divides by 0")
            return self._scale(a, 1.0 / b.constant) if isinstance(a, Derivation) else _divide_by(a, b.constant)
        if not isinstance(a, Expression) or not isinstance(b, Expression):
            raise _explain(self.text, "not linear; a ratio is of two linear expressions")
        return Derivation(None, a, b)


def _divide_by(expression: Expression, divisor: float) -> Expression:
    terms = {name: coefficient / divisor for name, coefficient in expression.terms.items()}
    return Expression(terms, expression.constant / divisor)


def _explain(text: str, reason: str) -> ValueError:
    return ValueError(f"relations: {quote(text)}: {reason}")


def place_relations(texts: Sequence[str], schema: Schema, whole: np.ndarray | None) -> PlacedRelations | None:
    """Return relations by the positions of their columns in a table; None if there are none.

    whole : which features hold whole numbers only, or None for none.
    """
    if not texts:
        return None
    positions = {str(schema.key(j)): j for j in range(schema.n_features)}
    linear: list[Linear] = []
    derived: list[Derived] = []
    for text in texts:
        for relation in parse_relation(text):
            if relation.derivation is None:
                left = _place(relation.left, text, positions, schema)
                counts = whole is not None and bool(whole[left.columns].all())
                is_exact = counts and _are_whole([*left.coefficients, left.constant])
                linear.append(Linear(text, left, relation.is_equality, is_exact))
            else:
                derived.append(_place_derived(relation, positions, schema))
    return PlacedRelations(tuple(linear), tuple(derived))


def warn_about_rows(relations: PlacedRelations | None, matrix: np.ndarray) -> None:
    """Report the relations that rows break as they stand; each with how many, and the first."""
    if relations is None:
        return
    broken = relations.find_broken(matrix)
    by_text: dict[str, np.ndarray] = {}
    for relation, rows in zip(relations.all, broken.T, strict=True):
        by_text[relation.text] = by_text.get(relation.text, np.zeros(len(matrix), dtype=bool)) | rows
    for text, rows in by_text.items():
        if rows.any():
            warnings.warn(
                f"relations: {quote(text)} does not hold in {rows.sum()} of {len(rows)} rows as they stand, first "
                f"in row {int(rows.argmax())} (counted from 0); it is not asked of what these rows become",
                stacklevel=2,
            )


def _place_derived(relation: Relation, positions: dict[str, int], schema: Schema) -> Derived:
    text, derivation = relation.text, relation.derivation
    assert derivation is not None
    assert relation.target is not None
    target = int(_place(Expression({relation.target: 1.0}, 0.0), text, positions, schema).columns[0])
    inner = derivation.inner
    if derivation.below is None:
        placed = _place(inner, text, positions, schema)
        return Derived(text, target, derivation.function, placed, None, derivation.scale, derivation.offset)
    # The scale and the offset of a ratio go into its numerator.
    below = _place(derivation.below, text, positions, schema)
    inner = inner.times(derivation.scale).plus(derivation.below, derivation.offset)
    return Derived(text, target, None, _place(inner, text, positions, schema), below)


def _place(expression: Expression, text: str, positions: dict[str, int], schema: Schema) -> PlacedExpression:
    columns = []
    for name in expression.terms:
        if name not in positions:
            raise ValueError(f"relations: {quote(text)}: column {quote(name)}: {explain_column(name, schema)}")
        if schema.categories[positions[name]] is not None:
            raise ValueError(
                f"relations: {quote(text)}: column {quote(name)} is categorical; relations are between numbers"
            )
        columns.append(positions[name])
    return PlacedExpression(
        np.array(columns, dtype=np.intp), np.array([*expression.terms.values()], dtype=np.float64), expression.constant
    )


def _are_whole(numbers: Iterable[float]) -> bool:
    return all(float(number).is_integer() for number in numbers)
