"""Network addresses."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit


def is_loopback(name: str) -> bool:
    """Whether a host name or an address, without a port, is a loopback address."""
    if name == "localhost":
        return True
    address = address_of(name)
    address = getattr(address, "ipv4_mapped", None) or address  # before Python 3.13
    return address is not None and address.is_loopback


def address_of(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Parse an IP address, with or without brackets; None if it is not one."""
    try:
        return ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None


def is_here(url: str) -> bool:
    """Whether a URL refers to this machine; then proxies of the environment are not used."""
    try:
        return is_loopback(urlsplit(url).hostname or "")
    except ValueError:  # not an address
        return False
