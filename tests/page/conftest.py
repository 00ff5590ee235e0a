"""A browser, and a server with the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import genai_feature_agent
import genai_feature_assistants
import genai_tools_data
import pytest
from genai_server import Server
from page.chromium import Installed, installed
from page.kinds import Assisted, Check, MakeChatHost, Visiting
from page.visits import Visit
from playwright.sync_api import Browser, expect, sync_playwright

from genai_host import Config, Host
from genai_host.api import Secret
from genai_host.store import Store
from genai_host_testing import FakeModel, InlinePlugin, RecordedPrompt
from genai_host_testing.fake_model import FakeAnswer
from genai_host_testing.internal.agents import Counting
from genai_host_testing.internal.fixtures import MakeHost

_ARGUMENTS = (
    "--no-sandbox",
    "--no-zygote",
    "--headless=shell",
    "--disable-gpu",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # nothing is elsewhere
)


@pytest.fixture(scope="session")
def browser_files(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return installed(tmp_path_factory.mktemp("browser"))


expect.set_options(timeout=60_000)  # what comes is waited for, also on a machine that is busy


@pytest.fixture(scope="session")
def browser(browser_files: Installed) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=browser_files.chromium,
            args=_ARGUMENTS,
            ignore_default_args=["--headless"],
        )
        yield launched
        launched.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visiting]:
    """Opens the page of a host. Whatever a test does there, no script fails, the page's
    policy has nothing to refuse, and nothing is asked of other servers."""
    visits: list[Visit] = []
    with ExitStack() as stack:
        servers: dict[Any, str] = {}

        def open_page(
            host: Host, place: str = "", *, root: str = "", token: str = "", **context: Any
        ) -> Visit:
            key = (id(host), root, token)
            if key not in servers:
                tokens = {"": Secret(token)} if token else {}
                server = Server(host, port=0, root_path=root, tokens=tokens)
                servers[key] = stack.enter_context(server).url + root
            window = browser.new_context(**{"viewport": {"width": 1180, "height": 800}, **context})
            stack.callback(window.close)
            visits.append(Visit(window, servers[key]))
            return visits[-1].open(place)

        yield open_page
    assert [each.problems for each in visits] == [[] for _ in visits]
    assert [each.elsewhere for each in visits] == [[] for _ in visits]


@pytest.fixture
def make_chat_host(make_host: MakeHost, home: Any) -> Iterator[MakeChatHost]:
    """Makes hosts with the chat, the agent, a model in this process, and a store."""
    with ExitStack() as stack:

        def make(model: FakeModel | None = None, *tools: Counting, **settings: Any) -> Host:
            home.mkdir(exist_ok=True)
            store = stack.enter_context(Store(home / "conversations.db"))
            own = InlinePlugin(tools=[each.tool for each in tools])
            config = settings.pop("config", None) or Config(models={"chat": "fake"})
            return make_host(
                agent=genai_feature_agent,
                data=genai_tools_data,
                tools=own,
                fake=model or FakeModel(),
                store=store,
                config=config,
                **settings,
            )

        yield make


@pytest.fixture
def there(make_chat_host: MakeChatHost, visit: Visiting) -> Visit:
    """The page of a host whose model repeats what it hears."""
    return visit(make_chat_host())


@pytest.fixture
def check(browser_files: Installed) -> Check:
    """Fails where axe-core finds something: all of its rules, good habits as well."""

    def run(there: Visit, state: str) -> None:
        if not there.page.evaluate("'axe' in window"):
            # by the debugger, to which the policy of the page does not apply
            there.page.evaluate(browser_files.axe)
        # without selectors of the elements that pass
        report: dict[str, Any] = there.page.evaluate(
            "axe.run(document, { resultTypes: ['violations'] })"
        )
        violations = [
            (each["id"], each["help"], [node["html"][:200] for node in each["nodes"]])
            for each in report["violations"]
        ]
        assert violations == [], f"{state}: {violations}"

    return run


@pytest.fixture
def assisted(make_chat_host: MakeChatHost) -> Assisted:
    def make(answer: Callable[[RecordedPrompt], FakeAnswer], *tools: Counting) -> Host:
        config = Config(models={"chat": "fake", "embed": "fake-embed"})
        plugin = genai_feature_assistants
        return make_chat_host(FakeModel(answer), *tools, assistants=plugin, config=config)

    return make
