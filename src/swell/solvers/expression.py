"""Arithmetic expressions over named columns: checked once, evaluated on arrays, never executed as code."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from functools import reduce
from typing import NamedTuple

import numpy as np

from swell.arrays import FloatArray, each

Columns = Mapping[str, FloatArray]
Evaluation = Callable[[Columns], FloatArray]

MOST_CHARACTERS = 500
#: Parentheses, signs and powers within each other.
MOST_NESTED = 40
_TOKEN = re.compile(r"\s*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|([A-Za-z_]\w*)|(\S))")


class InvalidExpression(ValueError):
    """The text is no expression: at which character, by which rule, and what would be one."""


def _log(value: float) -> float:
    return math.log(value) if value > 0.0 else math.nan


def _power(base: FloatArray, exponent: FloatArray) -> FloatArray:
    """NaN where it is no real number, or too large: the same to the last bit on every processor."""
    pairs = zip(*(one.ravel().tolist() for one in np.broadcast_arrays(base, exponent)), strict=True)
    found = np.array([_power_of(*pair) for pair in pairs], dtype=np.float64)
    return found.reshape(np.broadcast_shapes(base.shape, exponent.shape))


def _power_of(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except (ValueError, OverflowError):
        return math.nan


class _Function(NamedTuple):
    num_arguments: int  #: at least
    has_more: bool
    of: Callable[..., FloatArray]


FUNCTIONS: Mapping[str, _Function] = {
    "min": _Function(2, True, lambda *values: reduce(np.minimum, values)),
    "max": _Function(2, True, lambda *values: reduce(np.maximum, values)),
    "sqrt": _Function(1, False, lambda value: np.sqrt(value)),
    "log": _Function(1, False, lambda value: each(_log, value)),
}
_BINARY: Mapping[str, Callable[[FloatArray, FloatArray], FloatArray]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "^": _power,
}


class Expression:
    """`sum = product {(+|-) product}`, `product = signed {(*|/) signed}`, `signed = [-] power`,
    `power = atom [^ signed]`, `atom = number | name | function(sum, ...) | (sum)`.
    """

    def __init__(self, text: str, names: Collection[str]) -> None:
        """Raises InvalidExpression. Args: `names` are those that it may have."""
        self.text = text
        self._evaluate = _Parser(text, names).whole()

    def value(self, columns: Columns) -> FloatArray:
        """The expression on columns of one length; not finite where it divides by 0, for example."""
        with np.errstate(all="ignore"):
            return self._evaluate(columns)


class _Token(NamedTuple):
    at: int  #: character, from 1
    number: str | None
    name: str | None
    sign: str | None

    @property
    def text(self) -> str:
        return self.number or self.name or self.sign or "the end"


class _Parser:
    """Recursive descent."""

    def __init__(self, text: str, names: Collection[str]) -> None:
        self._text, self._names, self._depth = text, names, 0
        if len(text) > MOST_CHARACTERS:
            raise InvalidExpression(
                f"it has {len(text)} characters; write an expression of {MOST_CHARACTERS} at most"
            )
        found = _TOKEN.finditer(text.rstrip())
        self._tokens = [_Token(one.start(one.lastindex or 0) + 1, *one.groups()) for one in found]
        self._tokens.append(_Token(len(text) + 1, None, None, None))
        self._next = 0

    def whole(self) -> Evaluation:
        evaluation = self._sum()
        token = self._token
        if token.text != "the end":
            raise self._error(token, "is not expected here; write an operator such as * before it")
        return evaluation

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _take(self, *signs: str) -> str | None:
        """The next sign, if it is one of these; then it is gone."""
        sign = self._token.sign
        if sign is None or sign not in signs:
            return None
        self._next += 1
        return sign

    def _error(self, token: _Token, rule: str) -> InvalidExpression:
        return InvalidExpression(f"at character {token.at} of {self._text!r}: {token.text} {rule}")

    def _sum(self) -> Evaluation:
        left = self._product()
        while sign := self._take("+", "-"):
            left = _applied(_BINARY[sign], left, self._product())
        return left

    def _product(self) -> Evaluation:
        left = self._signed()
        while sign := self._take("*", "/"):
            left = _applied(_BINARY[sign], left, self._signed())
        return left

    def _signed(self) -> Evaluation:
        self._depth += 1
        if self._depth > MOST_NESTED:
            raise self._error(self._token, f"is nested more than {MOST_NESTED} times; write it flatter")
        if self._take("-"):
            evaluation = _applied(np.negative, self._signed())
        else:
            evaluation = self._power()
        self._depth -= 1
        return evaluation

    def _power(self) -> Evaluation:
        base = self._atom()
        return _applied(_power, base, self._signed()) if self._take("^") else base

    def _atom(self) -> Evaluation:
        token = self._token
        if self._take("("):
            inner = self._sum()
            self._close()
            return inner
        self._next += token.text != "the end"
        if token.number is not None:
            return self._constant(token, float(token.number))
        if token.name is not None and token.name in FUNCTIONS:
            return self._call(token, FUNCTIONS[token.name])
        if token.name is None:
            raise self._error(token, "stands where a number, a name or ( is expected")
        name = token.name
        if name not in self._names:
            known = ", ".join(sorted(self._names))
            raise self._error(token, f"is no known quantity; choose from {known}, or {', '.join(FUNCTIONS)}")
        return lambda columns: columns[name]

    def _constant(self, token: _Token, number: float) -> Evaluation:
        if not math.isfinite(number):
            raise self._error(token, "is too large; write a smaller number")
        value = np.array(number)
        return lambda columns: value

    def _call(self, name: _Token, function: _Function) -> Evaluation:
        if not self._take("("):
            raise self._error(self._token, f"stands where ( is expected, after {name.text}")
        arguments = [self._sum()]
        while self._take(","):
            arguments.append(self._sum())
        self._close()
        num, least = len(arguments), function.num_arguments
        if num < least or (num > least and not function.has_more):
            most = " or more" if function.has_more else ""
            raise self._error(name, f"has {num} arguments; it takes {least}{most}")
        return _applied(function.of, *arguments)

    def _close(self) -> None:
        if not self._take(")"):
            raise self._error(self._token, "stands where an operator or ) is expected")


def _applied(function: Callable[..., FloatArray], *arguments: Evaluation) -> Evaluation:
    return lambda columns: function(*(argument(columns) for argument in arguments))
