"""The addresses that pages may be read from.

What is private is said by the registries of IANA (RFC 6890 and what updates it), which
`ipaddress` follows; older versions of Python lack some, and forms that carry an address of
IPv4 are looked into here.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, TypeAlias

from attrs import frozen

from genai_host.errors import PermissionDenied, ServiceUnavailable

Address: TypeAlias = IPv4Address | IPv6Address

_GLOBAL_UNICAST = ip_network("2000::/3")  # RFC 4291: no other IPv6 is given to anybody
_NAT64 = ip_network("64:ff9b::/96")  # RFC 6052: the last 32 bits are an IPv4 address
_NEVER_PUBLIC = tuple(
    map(
        ip_network,
        (
            "100.64.0.0/10",  # shared by the customers of a carrier, and within clouds
            "168.63.129.16/32",  # what an Azure machine asks for its own data
            "192.0.0.0/24",
            "192.88.99.0/24",  # relays of 6to4
            "2001::/23",  # Teredo among it
            "2001:db8::/32",
            "2002::/16",  # 6to4: an IPv4 address is in it
            "3fff::/20",
        ),
    )
)
_NEVER = tuple(
    map(
        ip_network,
        (
            "169.254.0.0/16",
            "100.100.100.200/32",  # where clouds give a machine its keys
            "168.63.129.16/32",
            "192.0.0.192/32",
            "fd00:ec2::254/128",
            "fe80::/10",
        ),
    )
)
"""Not even where private addresses may be read: a machine's own credentials are there."""

Resolve: TypeAlias = Callable[[str, int], Sequence[str]]


def resolved(host: str, port: int) -> Sequence[str]:
    """The addresses of a host, as the system gives them. Raises `OSError` and
    `UnicodeError`."""
    found: Any = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [sockaddr[0] for *_, sockaddr in found]


def is_public(address: Address) -> bool:
    """Whether anybody on the Internet means the same by it."""
    address = _carried(address)
    if any(address in network for network in _NEVER_PUBLIC):
        return False
    if isinstance(address, IPv6Address) and address not in _GLOBAL_UNICAST:
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def is_usable(address: Address) -> bool:
    """Whether it may be read from where private addresses may be."""
    address = _carried(address)
    return not address.is_multicast and not any(address in network for network in _NEVER)


@frozen
class Addresses:
    """Finds the addresses of hosts, and refuses those that may not be read from.

    Attributes:
        allows: Whether one may be.
        resolve: Gives the addresses of a host; asked once for each request.
    """

    allows: Callable[[Address], bool] = is_public
    resolve: Resolve = resolved

    def of(self, host: str, port: int) -> Sequence[str]:
        """All of a host, each of them checked.

        Raises:
            ServiceUnavailable: There are none.
            PermissionDenied: Any of them may not be read from: a name that leads to both is no
                public one.
        """
        try:
            found = list(dict.fromkeys(self.resolve(host, port)))
        except (OSError, UnicodeError):
            found = []
        if not found:
            raise ServiceUnavailable(
                f"{host} cannot be found: no such name is known", retryable=False
            )
        for address in found:
            if not self.allows(ip_address(address)):
                raise self._refused(host, address)
        return found

    def _refused(self, host: str, address: str) -> PermissionDenied:
        if self.allows is not is_public:
            return PermissionDenied(f"{host} is at {address}, which no page is read from")
        return PermissionDenied(
            f"{host} is at {address}, which is not a public address",
            hint="set tools.pages.private=true if pages of your own network may be read",
        )


def _carried(address: Address) -> Address:
    """The IPv4 address that one of IPv6 stands for, if it does."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFFFFFF)
    return address
