"""Settings of the executor."""

from __future__ import annotations

from attrs import field, frozen, validators

from genai_host.api import about

_ONE_OR_MORE = validators.ge(1)


@frozen
class Settings:
    address: str = field(
        default="",
        metadata=about(
            "address of the scheduler, for example tcp://10.0.0.1:8786; a local cluster if not set",
            env="GENAI_DASK_ADDRESS",
        ),
    )
    workers: int = field(
        default=2,
        validator=_ONE_OR_MORE,
        metadata=about("number of processes of a local cluster"),
    )
    threads: int = field(
        default=4,
        validator=_ONE_OR_MORE,
        metadata=about("number of concurrent rows per process"),
    )
    patience: float = field(
        default=30.0,
        validator=validators.gt(0),
        metadata=about("timeout of the cluster, in seconds"),
    )
