"""Where Ollama listens, as its own programs read it from OLLAMA_HOST.

Source: Ollama's `envconfig`, `Host` and `ConnectableHost`, of August 2026.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

_USUAL_PORT = 11434
_PORTS: Mapping[str, int] = {"http": 80, "https": 443}
_CLOUD = "ollama.com"


def address_of(host: str) -> str:
    """The address that a host stands for: `http://127.0.0.1:11434` for nothing at all.

    Args:
        host: A name or an address, with a scheme, a port and a path if need be; a port that is none
            is the usual one, and one that stands for every interface of a machine, as `0.0.0.0`, is
            this machine.
    """
    host = host.strip().strip("\"'").strip()
    if host == _CLOUD:
        return f"https://{_CLOUD}"
    scheme, mark, rest = host.partition("://")
    if not mark:
        scheme, rest = "http", host
    place, slash, path = rest.partition("/")
    if "@" in place:  # a password, which is refused where addresses are checked
        return f"{scheme}://{rest}"
    name, port = _split(place)
    number = _number(port, _PORTS.get(scheme, _USUAL_PORT) if mark else _USUAL_PORT)
    name = _reachable(name)
    shown = "" if number == _PORTS.get(scheme) else f":{number}"
    return f"{scheme}://{name}{shown}{slash}{path}".rstrip("/")


def is_cloud(name: str | None) -> bool:
    """Whether a host is that of Ollama's own service."""
    return name is not None and (name == _CLOUD or name.endswith(f".{_CLOUD}"))


def _split(place: str) -> tuple[str, str]:
    """A host and its port; an IPv6 address may stand in brackets, and without a port it
    need not."""
    if place.startswith("["):
        name, _, rest = place[1:].partition("]")
        return name, rest.removeprefix(":")
    if place.count(":") == 1:
        name, _, port = place.partition(":")
        return name, port
    return place, ""


def _number(port: str, usual: int) -> int:
    fits = port.isascii() and port.isdigit() and int(port[:6]) <= 65535
    return int(port[:6]) if fits else usual


def _reachable(name: str) -> str:
    """A host that one can connect to, as it stands in an address."""
    if not name:
        return "127.0.0.1"
    try:
        ip = ipaddress.ip_address(name)
    except ValueError:
        return name
    if ip.version == 4:
        return "127.0.0.1" if ip.is_unspecified else str(ip)
    return "[::1]" if ip.is_unspecified else f"[{ip}]"
