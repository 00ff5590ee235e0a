"""Environment variables that override the configuration file.

A variable is named `GENAI_HOST_` and the place in the file, in capitals, with two underscores for a
dot, and one for a dash in a name.

    GENAI_HOST_DEFAULTS__MODEL=smollm2
    GENAI_HOST_DEFAULTS__PROVIDER_ORDER=local,big-window
    GENAI_HOST_PROVIDERS__BIG_WINDOW__WINDOW=8192
    GENAI_HOST_PROVIDERS__BIG_WINDOW__LIMITS__FIRST_TOKEN_TIMEOUT=900
    GENAI_HOST_TOOLS__FILES__FOLDER=/data/notes

Variables can contain secrets. An empty variable is ignored, and so is one without a matching key,
as other programs may set it; `unknown_in` returns such variables for a warning. Model names can
have characters that variable names cannot, so `aliases` and `models` are in the file only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from genai_host.config.key import hint_for, read_value
from genai_host.config.migration import RENAMED, VALUES, new_key
from genai_host.config.schema import Config, InstanceConfig, SetConfig, known_keys, read_key
from genai_host.errors import ConfigurationError
from genai_host.util.names import PLAIN_NAME, VARIABLES

_PREFIX = "GENAI_HOST_"
_OF_TESTS = "GENAI_HOST_TEST_"
# variables of other programs, with their values. Kubernetes sets variables for Services with names
# that begin with genai-host ("Discovering services"); image builds set VERSION and SHA256
_NOT_OURS = (
    r"GENAI_HOST_(\w+_)?(SERVICE_HOST=|SERVICE_PORT(_\w+)?=|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?="
    r"|PORT=(tcp|udp|sctp)://|VERSION=|SHA256=)"
)
_PROVIDERS = "GENAI_HOST_PROVIDERS__"
_TOOLS = "GENAI_HOST_TOOLS__"
_LIMITS = ("limits", "calls")  # the table of a provider, and its name in version 1


def variable_of(*place: str) -> str:
    """The variable for a place in the file, for example `variable_of("defaults", "model")`."""
    return _PREFIX + "__".join(place).replace("-", "_").upper()


def is_set(variable: str, environ: Mapping[str, str]) -> bool:
    """Whether a variable is true. Raises `ConfigurationError` if it is neither true nor false."""
    text = environ.get(variable)
    return bool(text and read_value(f"the environment variable {variable}", text, bool))


def unknown_in(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables with our prefix that match no key, each with a hint. Empty variables and those that
    Kubernetes and image builds set are omitted."""
    found = [
        variable
        for variable in _ours(environ)
        if not variable.startswith((_PROVIDERS, _TOOLS))
        and variable not in VARIABLES
        and not re.match(_NOT_OURS, f"{variable}={environ[variable]}")
    ]
    if not found:
        return {}
    known = [*sorted(variable_of(*key.split(".")) for key in known_keys()), *VARIABLES]
    named = [*known, f"{_PROVIDERS}NAME__SETTING", f"{_TOOLS}NAME__SETTING"]
    usual = _variables()
    return {each: hint_for(each, named) for each in sorted(found) if each not in usual}


def overrides_in(environ: Mapping[str, str]) -> dict[str, str]:
    """Places in the file, with dots, to the variables that override them."""
    ours = _ours(environ)
    if not ours:
        return {}
    usual = _variables()
    found: dict[str, str] = {}
    # old names first, so that the current one takes precedence
    for variable in sorted(ours, key=lambda each: (usual.get(each, "") in known_keys(), each)):
        if variable in usual:
            key = new_key(usual[variable])
        elif variable.startswith(_PROVIDERS):
            key = _of_instance(variable)
        elif variable.startswith(_TOOLS):
            key = _of_tools(variable)
        else:  # a member of `VARIABLES`, or another program's
            continue
        found[key] = variable
    return found


def _ours(environ: Mapping[str, str]) -> list[str]:
    """Variables with our prefix that are not empty, except those of tests."""
    ours = (each for each in environ if each.startswith(_PREFIX) and environ[each])
    return [each for each in ours if not each.startswith(_OF_TESTS)]


def _variables() -> dict[str, str]:
    """Variables of keys with a single value, including old names, to the keys."""
    old = (key for key in RENAMED if "*" not in key)
    return {variable_of(*key.split(".")): key for key in (*old, *known_keys())}


def overridden(config: Config, environ: Mapping[str, str]) -> Config:
    """The configuration with values from the environment. Raises `ConfigurationError` for an
    unknown setting of a provider, and for a value of the wrong type."""
    found = overrides_in(environ)
    if not found:
        return config
    values = {
        key: _value(key, variable, environ[variable])
        for key, variable in found.items()
        if key in known_keys()
    }
    current = {variable: variable_of(*key.split(".")) for key, variable in found.items()}
    warnings = [
        f"the environment variable {variable} is now {name}"
        for variable, name in current.items()
        if variable != name
    ]
    of_instances = [key for key in found if key.startswith("providers.")]
    return config._replace(
        providers=_with_instances(config.providers, found, of_instances, environ),
        tools=_with_tools(config.tools, found),
        warnings=(*config.warnings, *warnings),
    ).replaced(values)


def _value(key: str, variable: str, text: str) -> Any:
    owner = f"the environment variable {variable}"
    old = _variables()[variable]
    if old in VALUES:
        return VALUES[old][read_value(owner, text, bool)]
    return read_key(owner, text, key)


def _of_instance(variable: str) -> str:
    name, *rest = variable.removeprefix(_PROVIDERS).lower().split("__")
    name = name.replace("_", "-")
    is_setting = len(rest) == 1 and rest[0] not in ("models", *_LIMITS)
    is_limit = len(rest) == 2 and rest[0] in _LIMITS
    if not re.fullmatch(PLAIN_NAME, name) or not all(rest) or not (is_setting or is_limit):
        raise ConfigurationError(
            f"the environment variable {variable} is not the name of a provider setting",
            hint=f"for example {_PROVIDERS}MY_NAME__BASE_URL",
        )
    return new_key(".".join(["providers", name, *rest]))


def _of_tools(variable: str) -> str:
    name, *rest = variable.removeprefix(_TOOLS).lower().split("__")
    name = name.replace("_", "-")
    if not re.fullmatch(PLAIN_NAME, name) or len(rest) != 1 or not rest[0]:
        raise ConfigurationError(
            f"the environment variable {variable} is not the name of a tool setting",
            hint=f"for example {_TOOLS}MY_NAME__FOLDER",
        )
    return f"tools.{name}.{rest[0]}"


def _with_instances(
    providers: Mapping[str, InstanceConfig],
    found: Mapping[str, str],
    keys: Iterable[str],
    environ: Mapping[str, str],
) -> dict[str, InstanceConfig]:
    """Add instances from variables. The type of an unconfigured instance defaults to its name."""
    changed = dict(providers)
    for key in keys:
        variable = found[key]
        _, name, setting = key.split(".", 2)
        instance = changed.get(name) or InstanceConfig(name)
        if setting == "type":
            instance = instance._replace(type=environ[variable])
        elif setting == "enabled":
            owner = f"the environment variable {variable}"
            instance = instance._replace(enabled=read_value(owner, environ[variable], bool))
        else:
            instance = instance._replace(overrides={**instance.overrides, setting: variable})
        changed[name] = instance
    return changed


def _with_tools(tools: Mapping[str, SetConfig], found: Mapping[str, str]) -> dict[str, SetConfig]:
    changed = dict(tools)
    for key, variable in found.items():
        if key.startswith("tools."):
            _, name, setting = key.split(".")
            config = changed.get(name) or SetConfig()
            changed[name] = config._replace(overrides={**config.overrides, setting: variable})
    return changed
