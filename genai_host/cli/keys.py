"""`genai-host keys`: secrets of provider instances."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import click

from genai_host.api.settings import Secret, Setting, describe
from genai_host.cli.app import App, pass_app
from genai_host.cli.options import RenamedOption
from genai_host.cli.terminal import echo_rows, is_terminal, note, piped_text
from genai_host.errors import ConfigurationError

_secret = partial(
    click.option, "--secret", "setting", cls=RenamedOption, former="--setting", metavar="SETTING"
)


@click.group(name="keys")
def command() -> None:
    """Manage API keys.

    A key is read from the environment, else from the keyring, else from a file that only you
    can read. Each provider has its own keys; `genai-host providers` lists the names.
    """


@command.command("set")
@click.argument("name")
@_secret(help="Secret to set, if the provider has several.")
@pass_app
def set_key(app: App, name: str, setting: str | None) -> None:
    """Store an API key, read from a prompt or standard input.

    The key is stored in the keyring if there is one, else in a file that only you can read.
    """
    from genai_host.config import must_be_writable

    must_be_writable()
    store_key(app, name, _secret_of(app, name, setting))


def store_key(app: App, name: str, setting: Setting) -> None:
    """Ask for a secret of a provider instance, and store it."""
    place = app.host.keys.set(name, setting.name, _read_secret(f"{setting.name} of {name}"))
    note(f"stored in {place}: {setting.name} of {name}")
    found = app.host.instances[name].find_key(setting)
    if found is not None and found.source != place:
        note(f"{found.source} overrides it", fg="yellow")


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_app
def list_keys(app: App, as_json: bool) -> None:
    """List API keys and where each is stored, without their values."""
    echo_rows(list(_rows(app)), ("provider", "setting", "from"), as_json)


@command.command("remove")
@click.argument("name")
@_secret(help="Secret to delete.  [all of the provider]")
@pass_app
def remove(app: App, name: str, setting: str | None) -> None:
    """Delete the stored keys of a provider."""
    removed = app.host.keys.remove(name, setting)
    if not removed:
        raise ConfigurationError(
            f"no {setting or 'key'} of {name!r} is stored", hint="list keys: genai-host keys list"
        )
    note(f"removed: {', '.join(removed)} of {name}")


def _secret_of(app: App, name: str, setting: str | None) -> Setting:
    """The named secret setting of an instance, or the first one."""
    secrets = {
        each.name: each for each in describe(app.instance(name).type.settings) if each.secret
    }
    if not secrets:
        raise ConfigurationError(f"provider {name!r} has no API key")
    if setting is not None and setting not in secrets:
        raise ConfigurationError(
            f"unknown secret {setting!r} of provider {name!r}",
            hint=f"choose from {', '.join(secrets)}",
        )
    return secrets[setting] if setting is not None else next(iter(secrets.values()))


def _read_secret(what: str) -> Secret:
    """Read a secret from a prompt or standard input, because other users can see arguments and
    shells store them."""
    if is_terminal(sys.stdin):
        text: str = click.prompt(what, hide_input=True, err=True)
    else:
        text = piped_text()
    text = text.strip()
    if not text:
        raise ConfigurationError(
            "no key on standard input",
            hint="run it at a terminal, or redirect a file: genai-host keys set NAME < FILE",
        )
    if not (text.isascii() and text.isprintable()):
        raise ConfigurationError(
            "invalid key: several lines, or characters that are not printable ASCII",
            hint="check that it was copied completely",
        )
    return Secret(text)


def _rows(app: App) -> Any:
    kept = app.host.keys.kept()
    for instance in app.host.instances:
        for setting in describe(instance.type.settings):
            if setting.secret:
                kept.pop((instance.name, setting.name), None)
                yield _row(instance.name, setting.name, _source(instance, setting))
    for (name, secret), place in kept.items():
        yield _row(name, secret, f"{place}; unknown provider")


def _source(instance: Any, setting: Setting) -> str:
    try:
        found = instance.find_key(setting)
    except ConfigurationError as error:
        return str(error)
    return found.source if found else "nowhere"


def _row(name: str, setting: str, source: str) -> dict[str, str]:
    return {"provider": name, "setting": setting, "from": source}
