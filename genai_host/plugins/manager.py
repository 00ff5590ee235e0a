"""pluggy's manager with the hooks of this host."""

from __future__ import annotations

from types import FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

import pluggy

from genai_host.api import hooks as hookspecs
from genai_host.util.names import GROUP

HOOK_PREFIX = "genai_"
"""Prefix of the names of all hooks."""

HOOKS = tuple(name for name in vars(hookspecs) if name.startswith(HOOK_PREFIX))
"""Names of all hooks."""

_IMPLEMENTED, _SPECIFIED = f"{GROUP}_impl", f"{GROUP}_spec"  # attributes of marked functions
_MAY_BE_HOOKS = (FunctionType, MethodType, classmethod, staticmethod)


class HookManager(pluggy.PluginManager):
    """A `pluggy.PluginManager` with the hooks of `genai_host.api.hooks` and no plugins.

    It checks only functions of a plugin: pluggy calls the slow `inspect.getattr_static` for all
    attributes, which takes most of the time of a registration.
    """

    def __init__(self) -> None:
        super().__init__(GROUP)
        self.add_hookspecs(hookspecs)

    def parse_hookimpl_opts(self, plugin: Any, name: str) -> Any:
        if type(plugin) is ModuleType:
            found = vars(plugin).get(name)
            if type(found) is FunctionType:
                return getattr(found, _IMPLEMENTED, None)
            may_be = isinstance(found, _MAY_BE_HOOKS)
        else:
            may_be = _may_be_hook(plugin, name)
        return super().parse_hookimpl_opts(plugin, name) if may_be else None

    def parse_hookspec_opts(self, module_or_class: Any, name: str) -> Any:
        if module_or_class is hookspecs:
            return getattr(vars(hookspecs)[name], _SPECIFIED, None)
        return super().parse_hookspec_opts(module_or_class, name)


def _may_be_hook(plugin: object, name: str) -> bool:
    """Whether an attribute may be a hook. Attributes that this does not find are left to pluggy."""
    if isinstance(plugin, type):
        return True
    try:
        attributes: dict[str, object] = object.__getattribute__(plugin, "__dict__")
    except AttributeError:
        return True
    for holder in (attributes, *map(vars, type(plugin).__mro__)):
        if name in holder:
            return isinstance(holder[name], (*_MAY_BE_HOOKS, MemberDescriptorType))
    return True
