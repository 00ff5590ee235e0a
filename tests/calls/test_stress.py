"""Many calls at once through one host, over HTTP, while others are cancelled at any moment.

Each call has a number of its own, which the service repeats in what it answers: a piece
of another call's answer would show.
"""

from __future__ import annotations

import os
import ssl
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path
from random import Random

import pytest
import trustme

from genai_host import Config, Conversation, Host
from genai_host.api import DialectEndpoint, http_provider
from genai_host.config import InstanceConfig
from genai_host.errors import Cancelled
from genai_host_testing import InlinePlugin
from genai_host_testing.fake_service import HANG, FakeService, Received, Reply, ReplyStep
from genai_host_testing.internal.configs import provider_config
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.services import openai as openai_service

pytestmark = pytest.mark.part

SECONDS = float(os.environ.get("GENAI_HOST_TEST_STRESS_SECONDS", "20"))
THREADS = 32
SEED = 20261122
SERVICE = http_provider("service", "https://service.invalid/v1", {"openai-chat": DialectEndpoint()})
PATIENT = {"connect_timeout": 60, "first_token_timeout": 300, "read_timeout": 300, "proxy": ""}


Run = Callable[[Callable[[int], bool]], Counter[str]]


class Cancels:
    """When the service, amid its reply to a call, has it cancelled."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(4)
        self._doomed: dict[str, tuple[Random, Conversation]] = {}

    def doom(self, prompt: str, conversation: Conversation, random: Random) -> None:
        self._doomed[prompt] = random, conversation

    def soon(self, conversation: Conversation) -> None:
        """From another thread, while the service goes on."""
        self._threads.submit(conversation.cancel)

    def amid(self, prompt: str, reply: Reply) -> Reply:
        """The reply to a call, with a cancel in it if it is doomed: before it, at its end,
        or after any byte. Some end there, and nothing but the cancel ends them."""
        if prompt not in self._doomed:
            return reply
        random, conversation = self._doomed.pop(prompt)
        acts: list[Callable[[], object]] = [conversation.cancel, partial(self.soon, conversation)]
        act = random.choice(acts)
        sent = [step for step in reply.steps if isinstance(step, bytes)]
        size = sum(map(len, sent))
        place = random.choice([0, random.randrange(size), size - random.randrange(16), size])
        steps = _put_in(sent, place, act)
        if place < size and random.random() < 0.5:
            return Reply([*steps[: steps.index(act) + 1], HANG])
        return Reply(steps, keep=True)

    def close(self) -> None:
        self._threads.shutdown()


def _put_in(sent: list[bytes], place: int, act: Callable[[], object]) -> list[ReplyStep]:
    """With an act after so many bytes."""
    steps: list[ReplyStep] = []
    at = 0
    for each in sent:
        if at <= place < at + len(each):
            steps += [each[: place - at], act, each[place - at :]]
        else:
            steps.append(each)
        at += len(each)
    return steps if act in steps else [*steps, act]


class Caller:
    """Makes one call after another until it is enough, and counts how they ended."""

    def __init__(self, number: int, host: Host, cancels: Cancels) -> None:
        self._number = number
        self._random = Random(SEED + number)
        self._host = host
        self._cancels = cancels
        self._calls = count()
        self.ended: Counter[str] = Counter()

    def run(self, enough: Callable[[int], bool]) -> Counter[str]:
        while not enough(self.ended.total()):
            self._converse()
        return self.ended

    def _converse(self) -> None:
        """A conversation of some turns, the last of which may be cancelled."""
        provider = self._random.choice(["plain", "secure"])
        conversation = self._host.open("chat", f"{provider}/some-model")
        for _ in range(self._random.randrange(3)):
            self._take_turn(conversation)
        if self._random.random() < 0.7:
            self._take_doomed_turn(conversation)

    def _take_turn(self, conversation: Conversation) -> None:
        prompt = self._next()
        assert self._answer(conversation, prompt) == _answer_to(prompt)
        self.ended["answered"] += 1

    def _take_doomed_turn(self, conversation: Conversation) -> None:
        prompt = self._next()
        before = conversation.history
        if self._random.random() < 0.1:
            self._cancels.soon(conversation)  # before it is sent, or before it has begun
        else:
            self._cancels.doom(prompt, conversation, Random(self._random.random()))
        try:
            assert self._answer(conversation, prompt) == _answer_to(prompt)
        except Cancelled:
            assert conversation.history == before
            self.ended["cancelled"] += 1
        else:
            self.ended["cancelled in vain"] += 1

    def _answer(self, conversation: Conversation, prompt: str) -> str:
        if self._random.random() < 0.5:
            return conversation.say(prompt).text
        events = list(conversation.stream(prompt))
        answer = events[-1].answer
        assert answer is not None
        assert "".join(event.text for event in events) == answer.text
        return answer.text

    def _next(self) -> str:
        return f"call {self._number}.{next(self._calls)}"


def _answer_to(prompt: str) -> str:
    """Of another length for each."""
    return f"{prompt}! " * (1 + sum(prompt.encode()) % 5)


@pytest.fixture(autouse=True)
def frequent_switches() -> Iterator[None]:
    """Threads take turns amid what would else be done in one go."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(usual)


@pytest.fixture
def cancels() -> Iterator[Cancels]:
    cancels = Cancels()
    yield cancels
    cancels.close()


@pytest.fixture
def services(cancels: Cancels) -> Iterator[tuple[FakeService, FakeService, trustme.CA]]:
    """One without and one with TLS, and the authority to trust."""

    def answer(received: Received) -> Reply:
        sent = received.json()
        prompt = sent["messages"][-1]["content"]
        return cancels.amid(
            prompt, openai_service.chat(_answer_to(prompt), streamed=sent.get("stream", False))
        )

    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    with FakeService(answer=answer) as plain, FakeService(answer=answer, tls=context) as secure:
        yield plain, secure, authority


@pytest.fixture
def run(
    make_host: MakeHost, cancels: Cancels, services: tuple[FakeService, FakeService, trustme.CA],
    tmp_path: Path,
) -> Run:  # fmt: skip
    """Lets callers call until it is enough for each, and looks at what they leave behind."""
    plain, secure, authority = services
    file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(file))

    def instance(service: FakeService) -> InstanceConfig:
        settings = {"base_url": f"{service.url}/v1"}
        return provider_config("service", limits={**PATIENT, "ca_file": str(file)}, **settings)

    def run(enough: Callable[[int], bool]) -> Counter[str]:
        before = set(threading.enumerate())
        host = make_host(
            config=Config(providers={"plain": instance(plain), "secure": instance(secure)}),
            service=InlinePlugin(providers=[SERVICE]),
        )
        failed = threading.Event()

        def call(number: int) -> Counter[str]:
            try:
                return Caller(number, host, cancels).run(lambda n: failed.is_set() or enough(n))
            except BaseException:
                failed.set()
                raise

        with ThreadPoolExecutor(THREADS) as pool:
            ended = sum(pool.map(call, range(THREADS)), Counter[str]())
        cancels.close()
        for service in (plain, secure):
            service.wait_until_closed(but=THREADS)
        host.close()
        for service in (plain, secure):
            service.wait_until_closed()
            service.stop()
        for thread in set(threading.enumerate()) - before:
            thread.join(30)
            assert not thread.is_alive(), thread
        return ended

    return run


def test_what_is_cancelled_ends_alone(run: Run) -> None:
    ended = run(lambda calls: calls >= 15)
    assert ended["answered"]
    assert ended["cancelled"]


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 180)
def test_what_is_cancelled_ends_alone_for_long(run: Run) -> None:
    end = time.monotonic() + SECONDS
    ended = run(lambda _: time.monotonic() >= end)
    print(dict(ended))  # noqa: T201 - how much it was, with `pytest -rP`
    assert ended["answered"]
    assert ended["cancelled"]
