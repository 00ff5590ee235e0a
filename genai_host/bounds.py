"""What bounds the calls of one provider instance: a table of its configuration.

[providers.my-service.calls]
first_token = 120
at_once = 20
"""

from __future__ import annotations

from attrs import field, frozen, validators

from genai_host.api import about


def _seconds(default: float, help: str) -> float:
    seconds: float = field(default=default, validator=validators.gt(0), metadata=about(help))
    return seconds


@frozen
class Bounds:
    """Times in seconds; `None` for no bound, or for the usual."""

    connect: float = _seconds(5.0, "seconds to get a connection")
    first_token: float = _seconds(60.0, "seconds until a streamed reply begins")
    idle: float = _seconds(60.0, "seconds between two pieces of it, while somebody reads")
    total: float = _seconds(600.0, "seconds for a whole reply")
    at_once: int | None = field(
        default=None,
        validator=validators.optional(validators.ge(1)),
        metadata=about("calls under way at once; the others wait in line"),
    )
    line: int = field(
        default=200,
        validator=validators.ge(0),
        metadata=about("calls that may wait in line; more are refused"),
    )
    failures: int = field(
        default=5,
        validator=validators.ge(1),
        metadata=about("failures in a row after which the service is left alone"),
    )
    pause: float = _seconds(30.0, "seconds that it is left alone then")
    proxy: str | None = field(
        default=None,
        metadata=about("address of a proxy; empty for none; else as the environment says"),
    )
    ca_file: str | None = field(
        default=None,
        metadata=about(
            "PEM file of the certificate authorities to trust",
            env=("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"),
        ),
    )
