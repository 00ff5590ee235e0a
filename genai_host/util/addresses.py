"""Addresses of machines."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit


def is_loopback(name: str) -> bool:
    """Whether an address, or a name without a port, is this machine to itself."""
    if name == "localhost":
        return True
    address = address_of(name)
    return address is not None and address.is_loopback


def address_of(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address that a text is, with or without brackets; None if it is none."""
    try:
        return ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None


def is_here(url: str) -> bool:
    """Whether a URL leads to this machine, where no proxy of the environment is asked."""
    try:
        return is_loopback(urlsplit(url).hostname or "")
    except ValueError:  # it is none
        return False
