"""What a simulation of `deployment` is given: what things cost, who comes, and what there is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from attrs import frozen


@frozen
class Costs:
    """What is done for one conversation, turn or piece, in seconds of CPU, and bytes.

    reads         transactions of a turn, or an opening, that only read
    writes        times that a turn is put on record: its start, its step, its end
    flush         seconds until a commit is on disk
    proxy_piece   of a proxy, to pass on a piece: not simulated, but in what the whole comes to
    """

    open_cpu: float
    open_database: float
    open_reads: int
    turn_cpu: float
    turn_database: float
    turn_reads: int
    piece_cpu: float
    flush: float
    turn_wal: float
    piece_wal: float
    stream_bytes: float
    stream_descriptors: float
    connections: int
    proxy_piece: float
    writes: int = 3
    proxy_cpu: float = 60e-6

    @classmethod
    def of(cls, measured: Mapping[str, Any]) -> Costs:
        """From what `capacity.py` has measured."""
        opened, turn, stream = measured["opened"], measured["turn"], measured["stream"]
        alone = measured["commit"][0]
        return cls(
            open_cpu=opened["cpu"],
            open_database=opened["database"],
            open_reads=round(opened["transactions"] - 1),
            turn_cpu=turn["cpu"],
            turn_database=turn["database"],
            turn_reads=round(turn["transactions"] - turn["commits"]),
            piece_cpu=turn["piece"],
            flush=max(0.0, alone["mean"] - alone["cpu"]),
            turn_wal=turn["wal"],
            piece_wal=turn["piece_wal"],
            stream_bytes=stream["bytes"],
            stream_descriptors=stream["descriptors"],
            connections=turn["connections"],
            proxy_piece=measured["proxied"]["piece"],
        )


@frozen
class Load:
    """Who comes, and what the models behind do.

    conversations   begun in a second, on average
    turns           of each
    think           seconds from an answer to what is said next, on average
    first           seconds to a model's first token: half have it by then
    tokens          of an answer: half have no more; each token comes as a piece
    pace            tokens a second
    tries           of a turn that is cut off or refused, after a second, two, four ...
    burst           how many times as many come, from when, and for how long
    """

    conversations: float
    turns: int = 4
    think: float = 30.0
    first: float = 0.5
    first_sigma: float = 0.5
    tokens: float = 250.0
    tokens_sigma: float = 0.7
    pace: float = 60.0
    tries: int = 4
    burst: tuple[float, float, float] = (1.0, 0.0, 0.0)

    @property
    def mean_tokens(self) -> float:
        return self.tokens * math.exp(self.tokens_sigma**2 / 2)

    @property
    def mean_stream(self) -> float:
        """Seconds that a stream is open."""
        return self.first * math.exp(self.first_sigma**2 / 2) + self.mean_tokens / self.pace


@frozen
class Deployment:
    """What there is of machines.

    noticed   seconds until proxies leave out a host that says nothing any more
    connect   seconds that a proxy waits for one
    away      seconds until a host that died is back
    drain     seconds that one that is ended has for what is under way, and `start` to be back
    failover  seconds until another PostgreSQL is the primary
    budget    whether all turns are counted on one row of a budget
    """

    hosts: int
    workers: int = 8
    database_cores: int = 16
    pool: int = 15
    proxy_cores: int = 8
    noticed: float = 5.0
    connect: float = 1.0
    away: float = 60.0
    drain: float = 30.0
    start: float = 3.0
    failover: float = 30.0
    budget: bool = False
