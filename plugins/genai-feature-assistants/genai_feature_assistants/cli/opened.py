"""What the commands work with: the API of Assistants, in this process, over the host and the
store of the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from genai_feature_assistants.service.shelf import Object, Shelf
from genai_host.api import RouteRequest, RouteResponse
from genai_host.api.cancellation import Cancellation
from genai_host.api.json_text import read_json, write_json
from genai_host.errors import NotFound

if TYPE_CHECKING:
    from genai_feature_assistants.service.service import Service
    from genai_host.host import Host

_USER = "genai_feature_assistants.user"
_MOST_NAMED = 5


def be_user(ctx: click.Context, user: str) -> None:
    """The commands below are for this user."""
    ctx.meta[_USER] = user


def user_of(ctx: click.Context) -> str:
    """Whose assistants they are: empty for whoever runs the server."""
    user: str = ctx.meta.get(_USER, "")
    return user


def host_of(ctx: click.Context) -> Host:
    """The host, with the store of the command line."""
    host: Host = ctx.obj.host
    if host.store is None:
        host.store = ctx.obj.store
    return host


@contextmanager
def service_of(ctx: click.Context) -> Iterator[Service]:
    from genai_feature_assistants.service.service import Service

    service = Service(host_of(ctx))
    try:
        yield service
    finally:
        service.close()


def request(ctx: click.Context, body: Any = None, **parameters: str) -> RouteRequest:
    """As a client of the server would send it."""
    return RouteRequest(
        "POST" if body is not None else "GET",
        "/",
        parameters=parameters,
        body=b"" if body is None else write_json(body),
        limits=Cancellation(),
        user=user_of(ctx),
    )


def value_of(reply: RouteResponse) -> Any:
    assert isinstance(reply.body, bytes)
    return read_json(reply.body)


def shelf_of(ctx: click.Context, kind: str) -> Shelf:
    return Shelf(host_of(ctx), user_of(ctx), kind)


def found(ctx: click.Context, given: str, kind: str = "assistant") -> Object:
    """The one that is meant: by its id, the beginning of it that no other has, or its name if
    no other is called so. Raises `NotFound`."""
    shelf = shelf_of(ctx, kind)
    exact = shelf.find(given) if given else None
    if exact is not None:
        return exact
    every = list(shelf.all()) if given else []
    chosen = [each for each in every if each.get("name") == given]
    chosen = chosen or [each for each in every if each["id"].startswith(given)]
    if len(chosen) == 1:
        return chosen[0]
    lists = "genai-host assistants list"
    if not chosen:
        hint = lists if kind == "assistant" else "its id was told when it was begun"
        raise NotFound(f"there is no {kind} {given!r:.80}", hint=hint)
    ids = [each["id"] for each in chosen[:_MOST_NAMED]]
    more = " ..." if len(chosen) > _MOST_NAMED else ""
    raise NotFound(
        f"{len(chosen)} {kind}s are called {given!r:.80}, or have ids that begin so: "
        f"{', '.join(ids)}{more}",
        hint="give more of the id of the one that is meant",
    )


def tools_of(assistant: Mapping[str, Any]) -> list[str]:
    """Names of the tools, those of functions among them."""
    return [
        tool["function"]["name"] if tool["type"] == "function" else tool["type"]
        for tool in assistant["tools"]
    ]
