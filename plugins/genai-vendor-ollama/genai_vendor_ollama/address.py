"""The address of Ollama, from OLLAMA_HOST with the rules of Ollama's own programs.

Source: Ollama's `envconfig`, `Host` and `ConnectableHost`, of August 2026.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

_USUAL_PORT = 11434
_PORTS: Mapping[str, int] = {"http": 80, "https": 443}
_CLOUD = "ollama.com"


def address_of(host: str) -> str:
    """Return the address for a host; `http://127.0.0.1:11434` for an empty one.

    A host is a name or address, optionally with a scheme, port and path. An invalid port is
    replaced by the default port, and a wildcard address such as `0.0.0.0` by this machine.
    """
    host = host.strip().strip("\"'").strip()
    if host == _CLOUD:
        return f"https://{_CLOUD}"
    scheme, mark, rest = host.partition("://")
    if not mark:
        scheme, rest = "http", host
    place, slash, path = rest.partition("/")
    if "@" in place:  # a password, rejected by the later validation of addresses
        return f"{scheme}://{rest}"
    name, port = _split(place)
    number = _number(port, _PORTS.get(scheme, _USUAL_PORT) if mark else _USUAL_PORT)
    name = _reachable(name)
    shown = "" if number == _PORTS.get(scheme) else f":{number}"
    return f"{scheme}://{name}{shown}{slash}{path}".rstrip("/")


def is_cloud(name: str | None) -> bool:
    """Whether a host is ollama.com."""
    return name is not None and (name == _CLOUD or name.endswith(f".{_CLOUD}"))


def _split(place: str) -> tuple[str, str]:
    """Split a host and its port; brackets of an IPv6 address are optional without a port."""
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
    """Return a host to connect to, in the form for an address."""
    if not name:
        return "127.0.0.1"
    try:
        ip = ipaddress.ip_address(name)
    except ValueError:
        return name
    if ip.version == 4:
        return "127.0.0.1" if ip.is_unspecified else str(ip)
    return "[::1]" if ip.is_unspecified else f"[{ip}]"
