"""What people write, looked at where they write it: an error names the argument, what is wrong with it and what to write."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from typing import Any

from paceline.typos import METERS, told_once_of_meter


def text(name: str, value: Any, instead: str = "write text") -> None:
    """Text, or nothing."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name}: {shown(value)} is not text; {instead}")


def seconds(name: str, value: Any, *, may_be_over: bool = False) -> None:
    """A length of time, or nothing; one that is over only where that has a meaning."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name}: {shown(value)} is not a number of seconds; write a number, such as 30 or 0.5")
    if not math.isfinite(value):
        raise ValueError(f"{name}: {value} is no length of time; write a number of seconds, or leave it out for none")
    if value < 0 and not may_be_over:
        raise ValueError(f"{name}: {value:g} s is less than nothing; write 0 or more, or leave it out")


def count(name: str, value: Any) -> None:
    """A number from 1, or nothing."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}: {shown(value)} is not a whole number; write 1 or more")
    if value < 1:
        raise ValueError(f"{name}: {value} is too few; write 1 or more, or leave it out")


def labels(name: str, value: Any) -> dict[str, str]:
    """Names and values as text."""
    if not isinstance(value, Mapping):
        raise TypeError(f'{name}: {shown(value)} is not a mapping; write {{"feature": "search"}}')
    for label, said in value.items():
        if not isinstance(label, str) or not isinstance(said, str):
            raise TypeError(
                f"{name}: {shown(label)} is {shown(said)}; names and values are text: write {str(label)!r}: {str(said)!r}"
            )
    return dict(value)


def units(name: str, value: Any) -> dict[str, int]:
    """Whole numbers of units by meter."""
    if not isinstance(value, Mapping):
        raise TypeError(f'{name}: {shown(value)} is not a mapping; write {{"tokens": 900}}')
    read: dict[str, int] = {}
    for meter, number in value.items():
        if not isinstance(meter, str):
            raise TypeError(f'{name}: the meter {shown(meter)} is not text; write {{"tokens": 900}}')
        try:
            read[meter] = operator.index(number)
        except TypeError:
            raise TypeError(f"{name}: {meter} is {shown(number)}; units are whole numbers: round it up") from None
        if not 0 <= read[meter] < 1 << 64:
            raise ValueError(f"{name}: {meter} is {number}; units are 0 or more, in 64 bits: leave out what is not known")
        if meter not in METERS:
            told_once_of_meter(name, meter)
    return read


def shown(value: Any) -> str:
    """A value for an error, not too long."""
    said = repr(value)
    return said if len(said) <= 80 else f"{said[:77]}..."
