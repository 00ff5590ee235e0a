"""Ids of conversations."""

from __future__ import annotations

import secrets

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: none looks like another


def new_id(now: float) -> str:
    """Ids sort by time: milliseconds in nine digits, and as many by chance.

    now   seconds since 1970
    """
    return _digits(int(now * 1000), 9) + _digits(secrets.randbits(45), 9)


def _digits(number: int, length: int) -> str:
    found = []
    for _ in range(length):
        number, digit = divmod(number, 32)
        found.append(_DIGITS[digit])
    return "".join(reversed(found))
