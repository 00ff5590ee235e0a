"""`genai-host doctor`: checks of the installation."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from genai_host.cli.app import App, no_output_of_plugins, pass_app
from genai_host.cli.terminal import echo_json, echo_table, note
from genai_host.errors import ConfigurationError, GenaiError, NoRoute
from genai_host.util import paths
from genai_host.util.names import __version__

if TYPE_CHECKING:
    from genai_host.catalog.join import ProviderInfo
    from genai_host.errors import GenaiError
    from genai_host.host import Host

_MAX_SHOWN = 5  # remains of interrupted installers


class DoctorCheck(NamedTuple):
    """A check and its result.

    Attributes:
        status: `ok`, `warning` or `failed`.
        fix: How to fix a problem.
        facts: Further results, for programs.
    """

    what: str
    status: str
    found: str
    fix: str = ""
    facts: Mapping[str, Any] = {}

    def row(self) -> dict[str, Any]:
        row = self._asdict()
        del row["facts"]
        return {**row, **self.facts}


@click.command(name="doctor")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--repair", is_flag=True, help="Repair damaged conversations first.")
@pass_app
def command(app: App, as_json: bool, repair: bool) -> int:
    """Check the installation and report problems.

    The exit code is 1 if a check fails. JSON is a list of checks: what, status (ok, warning,
    failed), found, fix. The check of the store also has place, bytes, version and
    conversations, which are null if there is no store yet.

    --repair indexes damaged conversations again. Entries that no conversation can have, such as
    those of a turn that was imported twice, are moved to a file beside the store. Nothing is
    deleted.
    """
    checks = [*(_repair(app) if repair else ()), *_checks(app)]
    if as_json:
        echo_json([check.row() for check in checks])
    else:
        rows = [check[:3] for check in checks]
        echo_table(("what", "status", "found"), rows)
        for check in checks:
            if check.fix:
                note(f"{check.what}: {check.fix}")
    return int(any(check.status == "failed" for check in checks))


def _repair(app: App) -> Iterator[DoctorCheck]:
    try:
        store = app.store
        repairs = [] if store.health() is None else store.repair()
    except GenaiError as error:
        yield DoctorCheck("repair", "failed", str(error), error.hint)
        return
    for each in repairs:
        moved = f", {each.moved} entries moved to {store.set_aside}" if each.moved else ""
        if each.is_damaged:
            yield DoctorCheck("repair", "failed", f"{each.conversation}: still damaged{moved}")
        else:
            yield DoctorCheck("repair", "ok", f"{each.conversation}: repaired{moved}")
    if not repairs:
        yield DoctorCheck("repair", "ok", "nothing to repair")


def _checks(app: App) -> Iterator[DoctorCheck]:
    yield DoctorCheck("genai-host", "ok", f"{__version__} on Python {platform.python_version()}")
    yield from _check_folders()
    from genai_host.config import read_config, unread_config

    config = unread_config()
    try:
        config = read_config()
        found = paths.config_file()
        found = found if os.path.exists(found) else f"{found}: none"
        yield DoctorCheck(
            "configuration", "ok", found + (", read-only" if config.read_only else "")
        )
        for warning in config.warnings:
            yield DoctorCheck("configuration", "warning", warning)
    except GenaiError as error:
        yield DoctorCheck("configuration", "failed", str(error), error.hint)
    yield _check_store(app)
    from genai_host.host import Host
    from genai_host.plugins.discovery import InstalledPlugins

    discovery = InstalledPlugins(on_trial="all")  # a hanging plugin is reported by name
    with Host(config=config._replace(strict=False), discovery=discovery) as host:
        with no_output_of_plugins():
            checks = list(_check_plugins(host))
        yield from checks
        yield from _check_providers(host)
        yield from _check_keys(host)
        yield from _check_configurations(host)
        yield from _check_preferred(host)
        yield from _check_default(host)


def _check_folders() -> Iterator[DoctorCheck]:
    for what, folder in (("cache", paths.cache_dir()), ("data", paths.data_dir(""))):
        nearest = _nearest(folder)
        if os.path.isdir(nearest) and os.access(nearest, os.W_OK):
            yield DoctorCheck(what, "ok", folder)
        else:
            yield DoctorCheck(what, "warning", f"{folder} is not writable", paths.ELSEWHERE)


def _check_store(app: App) -> DoctorCheck:
    try:
        store = app.store
        health = store.health()
    except GenaiError as error:
        return DoctorCheck("store", "failed", str(error), error.hint)
    facts: dict[str, Any] = {
        "place": store.location, "bytes": None, "version": None, "conversations": None,
    }  # fmt: skip
    if health is None:
        return DoctorCheck("store", "ok", f"{store.location}: none yet", facts=facts)
    facts |= {
        "bytes": health.size,
        "version": health.version,
        "conversations": health.conversations,
    }
    details = [f"{health.size / 1e6:.1f} MB", f"version {health.version}"]
    if health.conversations is not None:
        details.insert(0, f"{health.conversations} conversations")
    if not health.faults:
        return DoctorCheck(
            "store", "ok", f"{store.location}: {', '.join(details)}, in order", facts=facts
        )
    found = "; ".join([f"{store.location}: {', '.join(details)}", *health.faults])
    return DoctorCheck("store", "failed", found, health.fix, facts)


def _nearest(folder: str) -> str:
    """The directory, or its nearest existing parent."""
    while not os.path.exists(folder) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    return folder


def _check_plugins(host: Host) -> Iterator[DoctorCheck]:
    from genai_host.plugins.results import BlockedPlugin

    results = host.plugins.results
    blocked = sum(isinstance(result, BlockedPlugin) for result in results)
    working = len(results) - blocked - len(host.plugins.broken)
    found = f"{working} loaded, {len(host.plugins.broken)} broken, {blocked} blocked"
    yield DoctorCheck("plugins", "ok" if working else "failed", found)
    for broken in host.plugins.broken:
        yield DoctorCheck(f"plugin {broken.found.name}", "failed", broken.line(), broken.fix)
    yield from _check_leftovers()


def _check_leftovers() -> Iterator[DoctorCheck]:
    from genai_host.plugins.index import PluginIndex

    leftovers = PluginIndex().leftovers()
    if leftovers:
        shown = [f"{each.folder}: {each.reason}" for each in leftovers[:_MAX_SHOWN]]
        if len(leftovers) > len(shown):
            shown.append(f"{len(leftovers) - len(shown)} more")
        yield DoctorCheck("distributions", "warning", "; ".join(shown), "remove these directories")


def _check_providers(host: Host) -> Iterator[DoctorCheck]:
    from genai_host.cli.next_step import missing_key

    for served in host.probe().served.values():
        status = "warning" if served.unavailable_reason else "ok"
        lacks_key = served.unavailable_reason.startswith("no key")
        lacks_key = lacks_key and missing_key(host.instances[served.name]) is not None
        fix = f"genai-host keys set {served.name}" if lacks_key else ""
        yield DoctorCheck(f"provider {served.name}", status, _found(served), fix)
        for id, reason in served.unavailable_models.items():
            yield DoctorCheck(f"{served.name}/{id}", "warning", reason)
    for name, reason in host.instances.unknown.items():
        yield DoctorCheck(
            f"provider {name}",
            "failed",
            reason,
            "install the plugin of this type, or correct the type",
        )


def _found(served: ProviderInfo) -> str:
    return (
        "works" if not served.unavailable_reason else f"{served.state}: {served.unavailable_reason}"
    )


def _check_keys(host: Host) -> Iterator[DoctorCheck]:
    """Location of stored secrets, and the source of each one."""
    from genai_host.api.settings import describe

    reason = host.keys.keyring_unavailable_reason()
    where = f"stored in the file {host.keys.path}: {reason}" if reason else "stored in the keyring"
    try:
        host.keys.kept()
        yield DoctorCheck("keys", "ok", where)
    except ConfigurationError as error:
        yield DoctorCheck("keys", "failed", str(error), error.hint)
    for instance in host.instances:
        for setting in describe(instance.type.settings):
            what = f"key {instance.name}.{setting.name}"
            try:
                found = instance.find_key(setting) if setting.secret else None
            except ConfigurationError as error:
                yield DoctorCheck(what, "failed", str(error), error.hint)
                continue
            if found is not None:
                yield DoctorCheck(what, "ok", f"from {found.source}")


def _check_configurations(host: Host) -> Iterator[DoctorCheck]:
    """Check that each model configuration refers to a model and has valid parameters."""
    for name, config in host.config.configurations.items():
        what = f"{'alias' if name in host.config.aliases else 'model'} {name}"
        try:
            host.check_configuration(name, config)
        except GenaiError as error:
            yield DoctorCheck(what, "failed", f"for {config.of}: {error}", error.hint)


def _check_preferred(host: Host) -> Iterator[DoctorCheck]:
    for name in host.config.provider_order:
        try:
            host.instances[name]
        except NoRoute as error:
            yield DoctorCheck("defaults.provider_order", "warning", str(error), error.hint)


def _as_probed(host: Host, error: GenaiError) -> GenaiError:
    """The error of a default model, considering services that do not respond."""
    if isinstance(error, NoRoute):
        try:
            host.probe().resolve(None)
        except NoRoute as probed:
            return probed
    return error


def _check_default(host: Host) -> Iterator[DoctorCheck]:
    try:
        with host.open() as conversation:
            models = ", ".join(conversation.models.values()) or "no model"
            if "main" in conversation.models:
                models += f" ({host.default_model().why})"
            yield DoctorCheck("default", "ok", f"{conversation.feature.name} with {models}")
    except GenaiError as failure:
        error = _as_probed(host, failure)
        reasons = [each for each in getattr(error, "reasons", ()) if each not in str(error)]
        yield DoctorCheck("default", "failed", "; ".join([str(error), *reasons]), error.hint)
