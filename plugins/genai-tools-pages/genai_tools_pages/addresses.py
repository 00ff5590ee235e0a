"""The addresses that pages may be read from.

Private addresses are defined by the registries of IANA (RFC 6890 and its updates), which
`ipaddress` follows. Some are missing in older versions of Python. IPv6 addresses that contain an
IPv4 address are checked here.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, TypeAlias

from attrs import frozen

from genai_host.errors import PermissionDenied, ServiceUnavailable

Address: TypeAlias = IPv4Address | IPv6Address

_GLOBAL_UNICAST = ip_network("2000::/3")  # RFC 4291: all allocated public IPv6
_NAT64 = ip_network("64:ff9b::/96")  # RFC 6052: the last 32 bits are an IPv4 address
_NEVER_PUBLIC = (
    ip_network("100.64.0.0/10"),  # shared address space of carriers and clouds
    ip_network("168.63.129.16/32"),  # platform service of Azure
    ip_network("192.0.0.0/24"),
    ip_network("192.88.99.0/24"),  # 6to4 relays
    ip_network("2001::/23"),  # includes Teredo
    ip_network("2001:db8::/32"),
    ip_network("2002::/16"),  # 6to4: contains an IPv4 address
    ip_network("3fff::/20"),
)
_NEVER = (
    ip_network("169.254.0.0/16"),
    ip_network("100.100.100.200/32"),  # metadata service of a cloud
    ip_network("168.63.129.16/32"),
    ip_network("192.0.0.192/32"),
    ip_network("fd00:ec2::254/128"),
    ip_network("fe80::/10"),
)
"""Addresses never allowed, even with private ones: they serve the credentials of the machine."""

Resolve: TypeAlias = Callable[[str, int], Sequence[str]]


def resolved(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host from the system. Raises `OSError` and `UnicodeError`."""
    found: Any = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [sockaddr[0] for *_, sockaddr in found]


def is_public(address: Address) -> bool:
    """Whether an address is globally reachable."""
    address = _carried(address)
    if any(address in network for network in _NEVER_PUBLIC):
        return False
    if isinstance(address, IPv6Address) and address not in _GLOBAL_UNICAST:
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def is_usable(address: Address) -> bool:
    """Whether an address is allowed when private addresses are."""
    address = _carried(address)
    return not address.is_multicast and not any(address in network for network in _NEVER)


@frozen
class Addresses:
    """Resolves hosts, once per request, and rejects disallowed addresses."""

    allows: Callable[[Address], bool] = is_public
    resolve: Resolve = resolved

    def of(self, host: str, port: int) -> Sequence[str]:
        """Return all addresses of a host, each of them checked.

        Raises:
            ServiceUnavailable: The host has no address.
            PermissionDenied: At least one address is disallowed: a public host has none.
        """
        try:
            found = list(dict.fromkeys(self.resolve(host, port)))
        except (OSError, UnicodeError):
            found = []
        if not found:
            raise ServiceUnavailable(f"unknown host {host}", retryable=False)
        hint = "to allow pages of your network, set tools.pages.private=true"
        what, hint = ("public", hint) if self.allows is is_public else ("allowed", "")
        for address in found:
            if not self.allows(ip_address(address)):
                raise PermissionDenied(
                    f"{host} has the address {address}, which is not {what}", hint=hint
                )
        return found


def _carried(address: Address) -> Address:
    """Return the IPv4 address in an IPv6 address; otherwise the address itself."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFFFFFF)
    return address
