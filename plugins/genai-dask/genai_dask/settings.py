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
            "the scheduler of a cluster, as tcp://10.0.0.1:8786; one is started here if not set",
            env="GENAI_DASK_ADDRESS",
        ),
    )
    workers: int = field(
        default=2,
        validator=_ONE_OR_MORE,
        metadata=about("processes of a cluster that is started here"),
    )
    threads: int = field(
        default=4,
        validator=_ONE_OR_MORE,
        metadata=about("rows that each of these does at once"),
    )
    patience: float = field(
        default=30.0,
        validator=validators.gt(0),
        metadata=about("seconds in which the cluster must have answered"),
    )
