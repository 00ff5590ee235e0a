"""The reference documents are made from the code, and are up to date.

`python tests/project/test_reference.py` writes them.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import click
import pytest
from genai_server.native.openapi import description
from genai_server.routes import own_routes
from message_schema import message_schema

import genai_host
import genai_host.api
import genai_host.errors
import genai_host.serving
import genai_host_testing
from genai_host import Config, Host
from genai_host.api import hooks, http_status
from genai_host.api.settings import Setting, describe
from genai_host.cli.app import App
from genai_host.cli.main import cli, commands
from genai_host.config.schema import BudgetConfig, keys_of, known_keys
from genai_host.errors import GenaiError
from genai_host.providers.limits import CallLimits

ROOT = Path(__file__).resolve().parents[2]

_WIDTH = 88
_STARS: dict[Any, str] = {
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}
_SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Yields):$")
_FIELD = re.compile(r"^ {4}(\S[\w, `*]*): (.*)$")


def hooks_document() -> str:
    """Each hook with its exact signature and its docstring."""
    lines = ["# Hooks", "", *_text_of(hooks)]
    for name, hook in vars(hooks).items():
        if name.startswith("genai_"):
            signature = str(inspect.signature(hook)).replace("'", "")
            lines += [f"## {name}", "", f"```python\ndef {name}{signature}\n```", ""]
            lines += _text_of(hook)
    return _joined(lines)


def commands_document() -> str:
    """The help of every command of the host, and of the plugins of this repository."""
    lines = ["# Commands", "", "The output of `genai-host COMMAND --help`.", ""]
    for title, help in _helps():
        lines += [f"## {title}", "", "```text", help.rstrip(), "```", ""]
    return _joined(lines)


def configuration_document() -> str:
    """Every key of the configuration, and the settings that plugins declare."""
    lines = [
        "# Configuration reference",
        "",
        "See [Configuration](../configuration.md) for the file, the environment and the commands.",
        "",
        *_table(
            ("key", "type", "default", "meaning"),
            (
                (f"`{key}`", _kind(k.kind), _value(k.default), k.help)
                for key, k in known_keys().items()
            ),
        ),
        "",
        "## Keys with names",
        "",
        *_table(("key", "meaning"), _NAMED_KEYS),
        "",
        "## Budgets",
        "",
        "`budgets.total`, `budgets.user` and `budgets.users.NAME` have these keys.",
        "",
        *_table(("key", "meaning"), ((f"`{key.name}`", key.help) for key in keys_of(BudgetConfig))),
        "",
        "## Call settings",
        "",
        "`providers.NAME.limits` has these keys.",
        "",
        *_settings(describe(CallLimits)),
    ]
    with Host(config=Config()) as host:
        declared: tuple[tuple[str, Mapping[str, Any]], ...] = (
            ("Provider type", host.registry.providers),
            ("Feature", host.registry.features),
            ("Tools", host.registry.tool_sets),
        )
        for title, each in declared:
            for name, declaration in sorted(each.items()):
                settings = describe(declaration.settings)
                if settings:
                    lines += ["", f"## {title} `{name}`", "", *_settings(settings)]
    return _joined(lines)


def errors_document() -> str:
    """The tree of errors, with code and HTTP status of each."""
    lines = [
        "# Errors",
        "",
        "All errors are in `genai_host.errors`. `hint` has the next step, if there is one.",
        "",
    ]
    rows = []
    for name in sorted(genai_host.errors.__all__):
        kind = getattr(genai_host.errors, name)
        if isinstance(kind, type) and issubclass(kind, GenaiError):
            status = http_status(kind.__new__(kind))
            doc = (inspect.getdoc(kind) or "").split("\n\n")[0]
            base = kind.__bases__[0].__name__
            rows.append((f"`{name}`", f"`{base}`", f"`{kind.code}`", status, doc))
    lines += _table(("error", "base", "code", "HTTP status", "meaning"), rows)
    return _joined(lines)


def http_document() -> str:
    """The HTTP routes of the server, and of the plugins of this repository."""
    rows = []
    for path, methods in description()["paths"].items():
        for method, operation in methods.items():
            rows.append((method.upper(), f"`{path}`", operation["summary"]))
    native = {(method, path.strip("`")) for method, path, _ in rows}
    lines = ["# HTTP reference", "", "## Native API", ""]
    lines += ["`GET /api/v1/openapi.json` describes the requests and replies.", ""]
    lines += _table(("method", "path", "operation"), rows)
    lines += ["", "## APIs of vendors, and the page", ""]
    others = [each for each in own_routes() if (each.method, each.path) not in native]
    lines += _table(("method", "path"), ((each.method, f"`{each.path}`") for each in others))
    with Host(config=Config()) as host:
        names = [
            (each.method, f"`{each.path}`", host.registry.owner("HTTP route", each.key))
            for _, each in sorted(host.registry.http_routes.items())
        ]
    lines += ["", "## Plugins", "", *_table(("method", "path", "plugin"), names)]
    return _joined(lines)


def python_document() -> str:
    """The public names of each module, with signatures and docstrings."""
    lines = ["# Python reference", ""]
    modules = (
        genai_host, genai_host.api, genai_host.errors, genai_host.serving, genai_host_testing,
    )  # fmt: skip
    for module in modules:
        lines += [f"## {module.__name__}", ""]
        for name in sorted(module.__all__):
            inner = [each for each in modules[1:3] if each is not module and name in each.__all__]
            if inner:
                lines += [f"### {name}", "", f"The same as `{inner[0].__name__}.{name}`.", ""]
            else:
                lines += _described(module, name)
    return _joined(lines)


def message_schema_document() -> str:
    return json.dumps(message_schema(), indent=2) + "\n"


DOCUMENTS = {
    "docs/reference/hooks.md": hooks_document,
    "docs/reference/commands.md": commands_document,
    "docs/message.schema.json": message_schema_document,
    "docs/reference/configuration.md": configuration_document,
    "docs/reference/errors.md": errors_document,
    "docs/reference/http.md": http_document,
    "docs/reference/python.md": python_document,
}

_NAMED_KEYS = (
    ("`aliases.NAME`", "model that the alias NAME stands for"),
    (
        "`approvals.TOOL`",
        "`allow`, `ask` or `deny`; `git__*` matches a prefix, and the longest wins",
    ),
    ("`models.NAME.of`", "model of the model configuration NAME"),
    ("`models.NAME.provider_order`", "preferred providers, best first"),
    ("`models.NAME.parameters.PARAMETER`", "model parameter, where the caller gives none"),
    ("`tools.NAME.SETTING`", "setting of a set of tools, see below"),
    ("`providers.NAME.type`", "provider type"),
    ("`providers.NAME.enabled`", "false disables the provider"),
    ("`providers.NAME.SETTING`", "setting of the provider type, see below"),
    ("`providers.NAME.models.MODEL`", "id of the model MODEL at this provider"),
    ("`providers.NAME.limits.LIMIT`", "limit of its calls, see below"),
    (
        "`server.token`",
        "reference to the token: `{ env = … }`, `{ file = … }` or `{ keyring = … }`",
    ),
    ("`server.users.NAME.token`", "reference to the token of a user"),
    (
        "`server.service_tools.KIND`",
        "tool of the host for this tool of services: code_execution, web_fetch or web_search",
    ),
)


def _helps() -> Iterator[tuple[str, str]]:
    parent = click.Context(
        cli, info_name="genai-host", terminal_width=_WIDTH, obj=App(), **cli.context_settings
    )
    with parent.obj:
        for name, command in commands():
            yield from _helps_of(f"genai-host {name}", command, name, parent)
        for name in sorted(parent.obj.host.registry.commands):
            command = cli.get_command(parent, name)
            yield from _helps_of(f"genai-host {name}", command, name, parent)


def _helps_of(title: str, command: Any, name: str, parent: Any) -> Iterator[tuple[str, str]]:
    context = click.Context(command, info_name=name, parent=parent, terminal_width=_WIDTH)
    yield title, command.get_help(context)
    for inner, subcommand in getattr(command, "commands", {}).items():
        yield from _helps_of(f"{title} {inner}", subcommand, inner, context)


def _settings(settings: Iterable[Setting]) -> list[str]:
    return _table(
        ("setting", "type", "default", "environment", "meaning"),
        (
            (
                f"`{each.name}`",
                f"`{_annotation(each.type)}`",
                "required" if each.required else _value(each.default),
                ", ".join(f"`{name}`" for name in each.env),
                each.help,
            )
            for each in settings
        ),
    )


def _kind(kind: type) -> str:
    return {str: "string", bool: "boolean", int: "integer", float: "number"}.get(kind, "list")


def _value(value: Any) -> str:
    return "" if value in (None, "", (), []) else f"`{json.dumps(value, default=str)}`"


def _described(module: ModuleType, name: str) -> list[str]:
    thing = getattr(module, name)
    if not callable(thing) or getattr(thing, "__module__", "") == "typing":
        return [f"### {name}", ""]
    lines = [f"### {name}", "", f"```python\n{name}{_signature(thing)}\n```", "", *_text_of(thing)]
    methods = list(_methods(thing))
    lines += ["Methods:", ""] if methods else []
    for method, function in methods:
        doc = (inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " ")
        signature = re.sub(r",?\s+(?=\))|(?<=\()\s+", "", _signature(function)).replace(
            ",\n   ", ","
        )
        lines += [f"- `{method}{signature}`" + (f": {doc}" if doc else "")]
    return [*lines, ""]


def _methods(thing: Any) -> Iterator[tuple[str, Any]]:
    """The public methods that a class of ours has, inherited ones of ours included."""
    if not isinstance(thing, type) or issubclass(thing, BaseException):
        return
    for name, member in inspect.getmembers(thing):
        is_ours = str(getattr(member, "__module__", "")).startswith("genai_host")
        if not name.startswith("_") and is_ours and inspect.isroutine(member):
            yield name, member


def _signature(thing: Any) -> str:
    """The signature of a callable, alike on every Python."""
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return "(...)"
    parameters: list[str] = []
    for name, each in signature.parameters.items():
        stars = _STARS.get(each.kind, "")
        if each.kind is each.KEYWORD_ONLY and not any(text[0] == "*" for text in parameters):
            parameters.append("*")
        kind = _annotation(each.annotation)
        text = f"{stars}{name}: {kind}" if kind else f"{stars}{name}"
        if each.default is not each.empty:
            text += f" = {_default(each.default)}" if kind else f"={_default(each.default)}"
        parameters.append(text)
    if parameters == ["*args", "**kwargs"]:  # a protocol: it is not made
        return ""
    result = _annotation(signature.return_annotation)
    end = f" -> {result}" if result and not isinstance(thing, type) else ""
    line = f"({', '.join(parameters)}){end}"
    if len(line) < _WIDTH:
        return line
    return "(\n" + "".join(f"    {each},\n" for each in parameters) + f"){end}"


def _annotation(kind: Any) -> str:
    if kind is inspect.Parameter.empty:
        return ""
    kind = getattr(kind, "__forward_arg__", kind)
    text = kind if isinstance(kind, str) else _as_written(kind)
    text = re.sub(r"Annotated\[(.*?), ConfigKey\(.*", r"\1", text)
    text = re.sub(r"ForwardRef\('([^']*)'[^)]*\)", r"\1", text).replace("'", '"').strip('"')
    text = re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z_])", "", text)
    return re.sub(r"^Optional\[(.*)\]$", r"\1 | None", text)


def _as_written(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind)


def _default(value: Any) -> str:
    """A default that is not plain is told by dots."""
    plain = (type(None), bool, int, float, str)
    return repr(value) if isinstance(value, plain) or value in ((), frozenset()) else "..."


def _text_of(thing: Any) -> list[str]:
    """A docstring as Markdown: sections in Google style become lists."""
    lines = []
    is_section = False
    for line in (inspect.getdoc(thing) or "").split("\n"):
        if section := _SECTION.match(line):
            lines += [f"{section[1]}:", ""]
            is_section = True
        elif is_section and (field := _FIELD.match(line)):
            lines.append(f"- `{field[1]}`: {field[2]}")
        elif is_section and line.startswith(" " * 8):
            lines.append(f"  {line.strip()}")
        else:
            lines.append(line)
            is_section = False
    return [*lines, ""]


def _table(head: tuple[str, ...], rows: Iterable[Iterable[Any]]) -> list[str]:
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for row in rows:
        cells = (" ".join(str(cell).split()).replace("|", "\\|") for cell in row)
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _joined(lines: list[str]) -> str:
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


@pytest.mark.part  # urllib3 opens a socket when it is imported
@pytest.mark.parametrize("path", DOCUMENTS)
def test_it_is_up_to_date(path: str) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == DOCUMENTS[path]()


def test_every_hook_has_a_docstring() -> None:
    for name, hook in vars(hooks).items():
        if name.startswith("genai_"):
            assert inspect.getdoc(hook), name


def test_every_setting_says_what_it_is() -> None:
    assert all(key.help for key in known_keys().values())
    with Host(config=Config()) as host:
        registry = host.registry
        each_kind: tuple[Mapping[str, Any], ...] = (
            registry.providers, registry.features, registry.tool_sets,
        )  # fmt: skip
        for declared in each_kind:
            for name, declaration in declared.items():
                assert all(each.help for each in describe(declaration.settings)), name


if __name__ == "__main__":
    for path, make in DOCUMENTS.items():
        (ROOT / path).parent.mkdir(exist_ok=True)
        (ROOT / path).write_text(make(), encoding="utf-8")
