"""Clients of the soak test: threads that send random requests and remember the answers."""

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

_TIMEOUT = (5.0, 20.0)  # seconds to connect, and between two chunks
_DISCONNECT_AFTER = 5  # lines
_MAX_TURNS = 12  # of a conversation
_WORD = re.compile(r"word\d+\.")
_INVALID_BODIES = (
    b"",
    b"{",
    b"[]",
    b'{"model": 3}',
    b'{"model": "unknown", "messages": []}',
    b"\xff" * 64,
)


class Clients:
    """Threads that send requests.

    Attributes:
        answers: Unique words of the complete answers, by conversation.
        outcomes: Number of requests by kind and outcome.
    """

    def __init__(self, url: str, number: int, seed: int) -> None:
        self.answers: dict[str, list[str]] = {}
        self.outcomes: Counter[str] = Counter()
        self._url = url
        self._lock = threading.Lock()
        self._running = threading.Event()
        self._stopping = False
        self._idle = threading.Condition()
        self._active = 0
        self._threads = [
            threading.Thread(target=self._work, args=[f"{seed}/{index}"], daemon=True)
            for index in range(number)
        ]

    def start(self, timeout: float) -> None:
        """Wait for the server, and start the threads, paused.

        Args:
            timeout: Maximum time to wait in seconds.
        """
        deadline = time.monotonic() + timeout
        while True:
            try:
                requests.get(f"{self._url}/ready", timeout=5).raise_for_status()
                break
            except requests.RequestException:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        for thread in self._threads:
            thread.start()

    def resume(self) -> None:
        """Start sending requests."""
        self._running.set()

    def pause(self) -> None:
        """Stop sending requests, and wait for those in progress."""
        self._running.clear()
        with self._idle:
            self._idle.wait_for(lambda: not self._active)

    def stop(self) -> None:
        """Stop the threads."""
        self._stopping = True
        self._running.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(30)

    def _work(self, seed: str) -> None:
        rng = random.Random(seed)  # noqa: S311 - test data, no secret
        client = _Client(self, rng, self._url)
        while True:
            self._running.wait()
            if self._stopping:
                return
            with self._idle:
                self._active += 1
            try:
                client.send_request()
            finally:
                with self._idle:
                    self._active -= 1
                    self._idle.notify_all()

    def count(self, kind: str, outcome: str) -> None:
        """Count a request."""
        with self._lock:
            self.outcomes[f"{kind}: {outcome}"] += 1

    def remember(self, conversation: str, text: str) -> None:
        """Remember the unique word of an answer."""
        with self._lock:
            self.answers.setdefault(conversation, []).extend(_WORD.findall(text))


class _Client:
    """Client of one thread.

    Each request uses a new connection, so that requests reach all processes of the server.
    """

    def __init__(self, clients: Clients, rng: random.Random, url: str) -> None:
        self._clients, self._rng, self._url = clients, rng, url
        self._conversation = ""
        self._turns = 0
        self._kinds: dict[str, Callable[[], str]] = {
            "chat": self._chat,
            "stream": self._stream,
            "disconnect": self._disconnect,
            "turn": self._turn,
            "streamed turn": self._streamed_turn,
            "list": self._list,
            "invalid": self._invalid,
        }

    def send_request(self) -> None:
        """Send a request of a random kind."""
        kind = self._rng.choice(list(self._kinds))
        try:
            outcome = self._kinds[kind]()
        except requests.RequestException as error:
            outcome = type(error).__name__
        self._clients.count(kind, outcome)

    def _chat(self) -> str:
        reply = self._post("/v1/chat/completions", self._messages())
        return str(reply.status_code)

    def _stream(self) -> str:
        with self._streamed("/v1/chat/completions", self._messages()) as reply:
            ended = any(line == b"data: [DONE]" for line in reply.iter_lines())
        return "complete" if ended else str(reply.status_code)

    def _disconnect(self) -> str:
        with self._streamed("/v1/chat/completions", self._messages()) as reply:
            for number, _ in enumerate(reply.iter_lines()):
                if number == _DISCONNECT_AFTER:
                    break
        return "disconnected"

    def _turn(self) -> str:
        self._open()
        reply = self._post(self._path(), {"message": "Continue."})
        self._turns += 1
        if reply.status_code == 200:
            self._remember(reply.json())
        return str(reply.status_code)

    def _streamed_turn(self) -> str:
        self._open()
        self._turns += 1
        with self._streamed(self._path(), {"message": "Continue."}) as reply:
            if reply.status_code != 200:
                return str(reply.status_code)
            for name, data in _events(reply):
                if name == "answer":
                    self._remember(data)
                if name in ("answer", "error"):
                    return name
        return "interrupted"

    def _list(self) -> str:
        reply = requests.get(f"{self._url}/api/v1/conversations?limit=20", timeout=_TIMEOUT)
        return str(reply.status_code)

    def _invalid(self) -> str:
        reply = requests.post(
            f"{self._url}/v1/chat/completions",
            data=self._rng.choice(_INVALID_BODIES),
            headers={"Content-Type": "application/json"},
            timeout=_TIMEOUT,
        )
        return str(reply.status_code)

    def _open(self) -> None:
        if self._conversation and self._turns < _MAX_TURNS:
            return
        reply = self._post("/api/v1/conversations", {"model": MODEL})
        reply.raise_for_status()
        self._conversation, self._turns = reply.json()["id"], 0

    def _path(self) -> str:
        return f"/api/v1/conversations/{self._conversation}/turns"

    def _remember(self, turn: Any) -> None:
        if not turn.get("record_error"):
            answer = turn.get("answer", turn)
            self._clients.remember(self._conversation, json.dumps(answer))

    def _messages(self) -> Any:
        messages = [{"role": "user", "content": f"Say {self._rng.random()}"}]
        return {"model": MODEL, "messages": messages}

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
