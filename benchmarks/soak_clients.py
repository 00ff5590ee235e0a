"""Clients of a server that is soaked: threads that ask for anything, and know what they were
told."""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import requests
from serve_command import MODEL

_TIMEOUT = (5.0, 20.0)  # seconds to connect, and between two pieces
_LEAVES_AFTER = 5  # pieces
_MOST_TURNS = 12  # of a conversation; then another is begun
_WORD = re.compile(r"word\d+\.")
_NONSENSE = (
    b"",
    b"{",
    b"[]",
    b'{"model": 3}',
    b'{"model": "nobody", "messages": []}',
    b"\xff" * 64,
)


class Clients:
    """
    told       by conversation: the words of the answers that a client got whole
    outcomes   how often each kind of request ended in which way
    """

    def __init__(self, url: str, number: int, seed: int) -> None:
        self.told: dict[str, list[str]] = {}
        self.outcomes: Counter[str] = Counter()
        self._url = url
        self._lock = threading.Lock()
        self._going = threading.Event()
        self._ending = False
        self._idle = threading.Condition()
        self._busy = 0
        self._threads = [
            threading.Thread(target=self._work, args=[f"{seed}/{each}"], daemon=True)
            for each in range(number)
        ]

    def await_server(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while True:
            try:
                requests.get(f"{self._url}/ready", timeout=5).raise_for_status()
                break
            except requests.RequestException:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)
        for thread in self._threads:
            thread.start()

    def go_on(self) -> None:
        self._going.set()

    def pause(self) -> None:
        """Returns when none has anything under way."""
        self._going.clear()
        with self._idle:
            self._idle.wait_for(lambda: not self._busy)

    def stop(self) -> None:
        self._ending = True
        self._going.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(30)

    def _work(self, seed: str) -> None:
        chance = random.Random(seed)  # noqa: S311 - chance, no secret
        client = _Client(self, chance, self._url)
        while True:
            self._going.wait()
            if self._ending:
                return
            with self._idle:
                self._busy += 1
            try:
                client.ask()
            finally:
                with self._idle:
                    self._busy -= 1
                    self._idle.notify_all()

    def count(self, what: str, how: str) -> None:
        with self._lock:
            self.outcomes[f"{what}: {how}"] += 1

    def remember(self, conversation: str, text: str) -> None:
        with self._lock:
            self.told.setdefault(conversation, []).extend(_WORD.findall(text))


class _Client:
    """One thread's; each request on a connection of its own, as the processes take turns."""

    def __init__(self, clients: Clients, chance: random.Random, url: str) -> None:
        self._clients, self._chance, self._url = clients, chance, url
        self._conversation = ""
        self._turns = 0
        self._kinds: dict[str, Callable[[], str]] = {
            "chat": self._chat,
            "stream": self._stream,
            "leaving": self._leave,
            "turn": self._turn,
            "streamed turn": self._streamed_turn,
            "list": self._list,
            "nonsense": self._nonsense,
        }

    def ask(self) -> None:
        kind = self._chance.choice(list(self._kinds))
        try:
            how = self._kinds[kind]()
        except requests.RequestException as error:
            how = type(error).__name__
        self._clients.count(kind, how)

    def _chat(self) -> str:
        reply = self._post("/v1/chat/completions", self._messages())
        return str(reply.status_code)

    def _stream(self) -> str:
        with self._streamed("/v1/chat/completions", self._messages()) as reply:
            ended = any(line == b"data: [DONE]" for line in reply.iter_lines())
        return "whole" if ended else str(reply.status_code)

    def _leave(self) -> str:
        with self._streamed("/v1/chat/completions", self._messages()) as reply:
            for number, _ in enumerate(reply.iter_lines()):
                if number == _LEAVES_AFTER:
                    break
        return "left"

    def _turn(self) -> str:
        self._open()
        reply = self._post(self._path(), {"message": "Go on."})
        self._turns += 1
        if reply.status_code == 200:
            self._heard(reply.json())
        return str(reply.status_code)

    def _streamed_turn(self) -> str:
        self._open()
        self._turns += 1
        with self._streamed(self._path(), {"message": "Go on."}) as reply:
            if reply.status_code != 200:
                return str(reply.status_code)
            for name, data in _events(reply):
                if name == "answer":
                    self._heard(data)
                if name in ("answer", "error"):
                    return name
        return "cut"

    def _list(self) -> str:
        reply = requests.get(f"{self._url}/api/v1/conversations?limit=20", timeout=_TIMEOUT)
        return str(reply.status_code)

    def _nonsense(self) -> str:
        reply = requests.post(
            f"{self._url}/v1/chat/completions",
            data=self._chance.choice(_NONSENSE),
            headers={"Content-Type": "application/json"},
            timeout=_TIMEOUT,
        )
        return str(reply.status_code)

    def _open(self) -> None:
        if self._conversation and self._turns < _MOST_TURNS:
            return
        reply = self._post("/api/v1/conversations", {"model": MODEL})
        reply.raise_for_status()
        self._conversation, self._turns = reply.json()["id"], 0

    def _path(self) -> str:
        return f"/api/v1/conversations/{self._conversation}/turns"

    def _heard(self, turn: Any) -> None:
        if not turn.get("record_error"):
            answer = turn.get("answer", turn)
            self._clients.remember(self._conversation, json.dumps(answer))

    def _messages(self) -> Any:
        said = [{"role": "user", "content": f"Say {self._chance.random()}"}]
        return {"model": MODEL, "messages": said}

    def _post(self, path: str, body: Any) -> requests.Response:
        return requests.post(f"{self._url}{path}", json=body, timeout=_TIMEOUT)

    def _streamed(self, path: str, body: Any) -> requests.Response:
        return requests.post(
            f"{self._url}{path}", json={**body, "stream": True}, timeout=_TIMEOUT, stream=True
        )


def _events(reply: requests.Response) -> Iterator[tuple[str, Any]]:
    name = ""
    for line in reply.iter_lines():
        if line.startswith(b"event: "):
            name = line[7:].decode()
        elif line.startswith(b"data: "):
            yield name, json.loads(line[6:])
