"""Arithmetic expressions in Python's syntax.

Python parses the expression, and only allowed nodes are evaluated: numbers, operators, and the
functions and constants below. Libraries such as simpleeval also support texts, names and
attributes, which would have to be disabled.

Integers and decimal numbers are exact, as fractions: 0.1 + 0.2 is 0.3. Roots and trigonometric
functions return floats, and so does a fraction that is too long to be exact. Limits are checked
before each computation: length, depth, and digits of a number.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from genai_host.errors import ValidationError

MAX_CHARACTERS = 1000
MAX_DEPTH = 200
MAX_DIGITS = 1000
"""Maximum number of digits of an integer, and of both parts of an exact fraction."""

Number = Fraction | float

# typographic signs of multiplication, division and subtraction
_SIGNS = str.maketrans({"\u00d7": "*", "\u00b7": "*", "\u00f7": "/", "\u2212": "-", "\u00a0": " "})
_MAX_SIZE = 10**MAX_DIGITS
_SHOWN = 15  # significant digits of a float
_EXACT = 40  # maximum number of digits of an exact decimal fraction


def calculate(expression: str) -> str:
    """Evaluate an arithmetic expression. Raises `ValidationError` with the reason."""
    text = expression.translate(_SIGNS).strip()
    if not text:
        raise ValidationError("the expression is empty")
    if len(text) > MAX_CHARACTERS:
        raise ValidationError(f"the expression is longer than {MAX_CHARACTERS} characters")
    try:
        tree = ast.parse(text, mode="eval")
    # the exception for deep nesting or NUL depends on the Python version
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        why = getattr(error, "msg", None) or str(error) or "nested too deeply"
        raise ValidationError(f"invalid expression: {why}; write for example 2 * (3 + 4)") from (
            error
        )
    try:
        _make_exact(tree, text)
        return _written(_value(tree.body, 0))
    except ZeroDivisionError as error:
        raise ValidationError("division by zero") from error
    except OverflowError as error:
        raise ValidationError("a number is too large") from error


def _make_exact(tree: ast.Expression, text: str) -> None:
    """Replace floats by the exact decimal numbers of the text: 0.1 as a float is not exact."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, float):
            if not math.isfinite(node.value):
                raise ValidationError("a number is too large")
            number: Any = _decimal(ast.get_source_segment(text, node) or "")
            node.value = number


def _decimal(written: str) -> Fraction:
    exponent = written.lower().partition("e")[2] or "0"
    if abs(int(exponent)) >= MAX_DIGITS:  # checked before the computation
        raise ValidationError(f"a number has more than {MAX_DIGITS} digits")
    return Fraction(written)


def _value(node: ast.expr, depth: int) -> Number:
    if depth > MAX_DEPTH:
        raise ValidationError(f"it is nested deeper than {MAX_DEPTH} levels: split the expression")
    if isinstance(node, ast.Constant):
        return _constant(node.value)
    if isinstance(node, ast.Name):
        if node.id in _CONSTANTS:
            return _CONSTANTS[node.id]
        raise ValidationError(f"unknown name {node.id!r}: choose from {', '.join(_CONSTANTS)}")
    if isinstance(node, ast.UnaryOp) and type(node.op) in _SIGN:
        return _bounded(_SIGN[type(node.op)](_value(node.operand, depth + 1)))
    if isinstance(node, ast.BinOp):
        return _operation(node, depth)
    if isinstance(node, ast.Call):
        return _call(node, depth)
    if isinstance(node, ast.Tuple):
        raise ValidationError("write numbers without a comma: 1000.5, not 1,000.5")
    raise ValidationError(f"{_NODES.get(type(node), type(node).__name__)} is not arithmetic")


def _constant(value: object) -> Number:
    if isinstance(value, bool) or not isinstance(value, (int, Fraction)):
        raise ValidationError("only numbers are allowed")
    return _bounded(Fraction(value))


def _operation(node: ast.BinOp, depth: int) -> Number:
    left, right = _value(node.left, depth + 1), _value(node.right, depth + 1)
    kind = type(node.op)
    if kind is ast.Pow:
        return _power(left, right)
    if kind is ast.BitXor:
        raise ValidationError("^ is not an operator: a power is written 2 ** 3")
    if kind not in _OPERATORS:
        raise ValidationError(f"unknown operator: choose from {' '.join(_WRITTEN)}")
    return _bounded(_OPERATORS[kind](left, right))


def _power(base: Number, exponent: Number) -> Number:
    """Compute a power, with the size checked first: nine digits can produce a billion digits."""
    if isinstance(base, Fraction) and isinstance(exponent, Fraction) and exponent.denominator == 1:
        digits = max(_digits(base.numerator), _digits(base.denominator))
        is_long = base not in (-1, 0, 1) and digits * abs(exponent.numerator) > 2 * MAX_DIGITS
        if is_long and base.denominator == 1:
            raise ValidationError(f"a power has more than {MAX_DIGITS} digits")
        if base in (-1, 0, 1) and exponent >= 0:  # any exponent is safe
            return base if exponent % 2 or (base == 0 and exponent) else Fraction(1)
        if not is_long:
            return _bounded(base**exponent.numerator)
    result = _inexact(base) ** float(exponent)
    if isinstance(result, complex):
        raise ValidationError("the root of a negative number is not a real number")
    if not result and base:
        raise ValidationError("a number is too small")
    return _bounded(result)


def _call(node: ast.Call, depth: int) -> Number:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name not in _FUNCTIONS:
        raise ValidationError(f"unknown function: choose from {', '.join(sorted(_FUNCTIONS))}")
    if node.keywords or any(isinstance(each, ast.Starred) for each in node.args):
        raise ValidationError(f"{name} takes only positional arguments")
    least, most, function = _FUNCTIONS[name]
    if not least <= len(node.args) <= most:
        raise ValidationError(f"{name} does not take {len(node.args)} arguments")
    arguments = [_value(each, depth + 1) for each in node.args]
    try:
        result = function(*arguments)
    except ValueError as error:
        raise ValidationError(f"invalid arguments for {name}: {error}") from error
    return _bounded(Fraction(result) if isinstance(result, int) else result)


def _bounded(value: Number) -> Number:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValidationError("a number is too large")
        return value
    if abs(value.numerator) < _MAX_SIZE and value.denominator < _MAX_SIZE:
        return value
    if value.denominator == 1:
        raise ValidationError(f"a number has more than {MAX_DIGITS} digits")
    return _inexact(value)


def _inexact(value: Number) -> float:
    rounded = float(value)
    if not rounded and value:
        raise ValidationError("a number is too small")
    return rounded


def _digits(number: int) -> int:
    """Return an upper bound of the number of digits, without converting to text."""
    return int(abs(number).bit_length() * 0.302) + 1


def _whole(value: Number, name: str, most: int) -> int:
    if value != int(value) or not 0 <= value <= most:
        raise ValidationError(f"{name} takes integers from 0 to {most}")
    return int(value)


def _sqrt(value: Number) -> Number:
    if value < 0:
        raise ValidationError("the root of a negative number is not a real number")
    if isinstance(value, Fraction):
        sides = math.isqrt(value.numerator), math.isqrt(value.denominator)
        if (sides[0] ** 2, sides[1] ** 2) == (value.numerator, value.denominator):
            return Fraction(*sides)
    return math.sqrt(value)


def _rounded(value: Number, digits: Number = 0.0) -> Number:
    """Round half away from zero."""
    if not -100 <= digits <= 100 or digits != int(digits):
        raise ValidationError("round takes an integer number of digits, up to 100")
    scale = Fraction(10) ** int(digits)
    scaled = abs(Fraction(value) * scale)
    whole = math.floor(scaled + Fraction(1, 2)) / scale
    return whole if value >= 0 else -whole


_SIGN: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}
_OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_WRITTEN = ("+", "-", "*", "/", "//", "%", "**")
_CONSTANTS: Mapping[str, float] = {"pi": math.pi, "e": math.e, "tau": math.tau}
_MANY = 200
# minimum and maximum number of arguments
_FUNCTIONS: Mapping[str, tuple[int, int, Callable[..., Any]]] = {
    "abs": (1, 1, abs),
    "ceil": (1, 1, math.ceil),
    "comb": (2, 2, lambda *of: math.comb(*(_whole(each, "comb", 1000) for each in of))),
    "cos": (1, 1, math.cos),
    "degrees": (1, 1, math.degrees),
    "exp": (1, 1, math.exp),
    "factorial": (1, 1, lambda value: math.factorial(_whole(value, "factorial", 400))),
    "floor": (1, 1, math.floor),
    "log": (1, 2, math.log),
    "log10": (1, 1, math.log10),
    "log2": (1, 1, math.log2),
    "max": (1, _MANY, lambda *values: max(values)),
    "mean": (1, _MANY, lambda *values: sum(values, Fraction()) / len(values)),
    "min": (1, _MANY, lambda *values: min(values)),
    "radians": (1, 1, math.radians),
    "round": (1, 2, _rounded),
    "sin": (1, 1, math.sin),
    "sqrt": (1, 1, _sqrt),
    "sum": (1, _MANY, lambda *values: sum(values, Fraction())),
    "tan": (1, 1, math.tan),
}
_NODES: Mapping[type[ast.expr], str] = {
    ast.Attribute: "an attribute",
    ast.Compare: "a comparison",
    ast.Lambda: "a function",
    ast.List: "a list",
    ast.Subscript: "an index",
}


def _written(value: Number) -> str:
    if isinstance(value, float):
        text = f"{value:.{_SHOWN}g}"
        return "0" if text == "-0" else text
    if value.denominator == 1:
        return str(value.numerator)
    places = next((n for n in range(1, _EXACT + 1) if 10**n % value.denominator == 0), None)
    if places is None:
        return f"about {_rough(value)}"
    digits = str(abs(value.numerator) * 10**places // value.denominator).rjust(places + 1, "0")
    sign = "-" if value < 0 else ""
    return f"{sign}{digits[:-places]}.{digits[-places:]}"


def _rough(value: Fraction) -> str:
    from decimal import Context, Decimal

    near = Context(prec=_SHOWN, Emax=9999, Emin=-9999).divide(
        Decimal(value.numerator), Decimal(value.denominator)
    )
    return f"{near:g}"
