"""Parameters of the capacity model: costs of operations, load, and deployment."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from attrs import frozen


@frozen
class Costs:
    """Resources that operations take. Times are seconds of CPU time.

    Attributes:
        open_cpu: Time of a worker to open a conversation.
        open_database: Time of the database to open a conversation.
        open_reads: Read-only transactions to open a conversation.
        turn_cpu: Time of a worker for a turn, without its chunks.
        turn_database: Time of the database for a turn.
        turn_reads: Read-only transactions of a turn.
        chunk_cpu: Time of a worker for a streamed chunk.
        flush: Seconds to flush a commit to disk.
        turn_wal: Bytes of WAL of a turn, without its chunks.
        chunk_wal: Bytes of WAL of a chunk.
        stream_bytes: Memory of an open stream.
        stream_descriptors: File descriptors of an open stream.
        connections: Database connections of a worker.
        proxy_chunk_cpu: Time of a proxy for a chunk. Not simulated; part of the totals.
        turn_writes: Transactions of a turn that write: its start, its step and its end.
        proxy_turn_cpu: Time of a proxy for a turn, without its chunks.
    """

    open_cpu: float
    open_database: float
    open_reads: int
    turn_cpu: float
    turn_database: float
    turn_reads: int
    chunk_cpu: float
    flush: float
    turn_wal: float
    chunk_wal: float
    stream_bytes: float
    stream_descriptors: float
    connections: int
    proxy_chunk_cpu: float
    turn_writes: int = 3
    proxy_turn_cpu: float = 60e-6

    @classmethod
    def from_measurements(cls, measured: Mapping[str, Any]) -> Costs:
        """Derive the costs from the output of `capacity.py --json`."""
        opening, turn, stream = measured["opening"], measured["turn"], measured["stream"]
        single = measured["commit"][0]
        return cls(
            open_cpu=opening["cpu"],
            open_database=opening["database"],
            open_reads=round(opening["transactions"] - 1),
            turn_cpu=turn["cpu"],
            turn_database=turn["database"],
            turn_reads=round(turn["transactions"] - turn["commits"]),
            chunk_cpu=turn["chunk_cpu"],
            flush=max(0.0, single["mean"] - single["cpu"]),
            turn_wal=turn["wal"],
            chunk_wal=turn["chunk_wal"],
            stream_bytes=stream["bytes"],
            stream_descriptors=stream["descriptors"],
            connections=turn["connections"],
            proxy_chunk_cpu=measured["proxy"]["chunk_cpu"],
        )


@frozen
class Load:
    """Conversations, and the behavior of the models.

    Attributes:
        arrival_rate: Mean number of conversations started per second.
        turns: Turns of a conversation.
        think_time: Mean seconds from an answer to the next message.
        first_token: Median seconds to the first token of a model (lognormal).
        first_token_sigma: Sigma of that distribution.
        tokens: Median number of tokens of an answer (lognormal); a token is a chunk.
        tokens_sigma: Sigma of that distribution.
        token_rate: Tokens per second of an answer.
        attempts: Maximum number of attempts of a turn, with retries after 1, 2, 4 ... seconds.
        burst: Factor of the arrival rate, start time and duration in seconds.
    """

    arrival_rate: float
    turns: int = 4
    think_time: float = 30.0
    first_token: float = 0.5
    first_token_sigma: float = 0.5
    tokens: float = 250.0
    tokens_sigma: float = 0.7
    token_rate: float = 60.0
    attempts: int = 4
    burst: tuple[float, float, float] = (1.0, 0.0, 0.0)

    @property
    def mean_tokens(self) -> float:
        return self.tokens * math.exp(self.tokens_sigma**2 / 2)

    @property
    def mean_stream_seconds(self) -> float:
        mean_first_token = self.first_token * math.exp(self.first_token_sigma**2 / 2)
        return mean_first_token + self.mean_tokens / self.token_rate


@frozen
class Deployment:
    """Machines of a cell, and their timeouts in seconds.

    Attributes:
        hosts: Number of hosts.
        workers: Workers of a host; each has a core.
        database_cores: Cores of the database.
        read_connections: Maximum number of read connections of a worker.
        proxy_cores: Cores of all proxies.
        detection_time: Time until proxies skip a host that does not respond.
        connect_timeout: Time that a proxy waits for a host that does not respond.
        recovery_time: Time until a failed host is available again.
        drain_time: Time that requests in progress have when a host stops.
        restart_time: Time to start a host.
        failover_time: Time until a standby of the database is promoted.
        shared_budget: Whether each turn updates the same row of a budget.
    """

    hosts: int
    workers: int = 8
    database_cores: int = 16
    read_connections: int = 15
    proxy_cores: int = 8
    detection_time: float = 5.0
    connect_timeout: float = 1.0
    recovery_time: float = 60.0
    drain_time: float = 30.0
    restart_time: float = 3.0
    failover_time: float = 30.0
    shared_budget: bool = False
