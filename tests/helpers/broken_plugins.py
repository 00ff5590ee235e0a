"""Broken plugins, one for each kind of defect."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from genai_host_testing import make_distribution

_IMPORTS = "from genai_host.api import *\nfrom genai_host.api.hooks import hookimpl\n"
_MODEL = "Model('{0}', ['plain'])"


class Fault(NamedTuple):
    """A distribution whose only plugin is broken.

    Attributes:
        name: Name of the distribution and of its plugin.
        reason: Text that the reported reason must contain.
        source: Source of its module; None for a missing module.
        point: The entry point, if it is not `name = module`.
        raw: The whole `entry_points.txt`, if it is not a generated one.
    """

    name: str
    reason: str
    source: str | None = ""
    point: tuple[str, str] | None = None
    raw: bytes | None = None

    def install(self, folder: Path) -> None:
        module = self.name.replace("-", "_")
        point = self.point or (self.name, module)
        files = {} if self.source is None else {f"{module}.py": self.source}
        info = make_distribution(folder, self.name, entry_points=dict([point]), files=files)
        if self.raw is not None:
            (info / "entry_points.txt").write_bytes(self.raw)

    @property
    def plugin(self) -> str:
        return self.point[0] if self.point else self.name


def _hooks(body: str) -> str:
    return _IMPORTS + body


def _hook(name: str, statement: str, before: str = "") -> str:
    """A module with one hook."""
    return _hooks(f"{before}@hookimpl\ndef genai_{name}(): {statement}\n")


BROKEN = (
    Fault("zz-missing-module", "ModuleNotFoundError", None),
    Fault("zz-missing-dependency", "No module named 'not_there'", "import not_there.at_all"),
    Fault("zz-import-error", "ImportError: no", "raise ImportError('no')"),
    Fault("zz-system-exit", "SystemExit: 3", "import sys\nsys.exit(3)"),
    Fault("zz-syntax-error", "SyntaxError", "def f(:\n"),
    Fault("zz-exception", "RuntimeError: oh", "raise RuntimeError('oh')"),
    Fault("zz-base-exception", "Odd", "class Odd(BaseException): pass\nraise Odd('very odd')"),
    Fault("zz-recursion", "RecursionError", "def f(): f()\nf()"),
    Fault("zz-missing-object", "AttributeError", "", ("zz-missing-object", "json:plugin")),
    Fault("zz-wrong-signature", "wrong signature",
          _hooks("@hookimpl\ndef genai_models(registry): return []\n")),
    Fault("zz-misspelt-hook",
          "misspelt hook: unknown hook 'genai_modells'; did you mean genai_models?",
          _hook("modells", "return []")),
    Fault("zz-unmarked-hook", "hook genai_models is not marked",
          _hooks("def genai_models(): return []\n")),
    Fault("zz-no-hook", "implements no hook", "x = 1"),
    Fault("zz-api-version", "version 99", _hook("api", "return 99")),
    Fault("zz-raises-in-hook", "ZeroDivisionError",
          _hook("models", "yield Model('zz-a', ['plain']); 1 / 0")),
    Fault("zz-exits-in-hook", "SystemExit", _hook("features", "raise SystemExit('bye')")),
    Fault("zz-wrong-type", "which is not of type Model", _hook("models", "return ['gpt']")),
    Fault("zz-no-list", "which is not a list", _hook("models", "return 7")),
    Fault("zz-malformed-name", "is not a valid name for a provider",
          _hook("providers", "yield ProviderType('Not A Name', NoSettings, lambda *a: None)")),
    Fault("zz-duplicate-plugin", "the plugin name 'mock' is already used by genai-vendor-mock",
          _hook("models", f"yield {_MODEL.format('zz-b')}"),
          ("mock", "zz_duplicate_plugin")),
    Fault("zz-duplicate-provider", "the provider 'mock' is already declared by mock",
          _hook("models", f"yield {_MODEL.format('zz-c')}")
            + "@hookimpl\ndef genai_providers():\n"
              "    yield ProviderType('mock', NoSettings, lambda *a: None)\n"),
    Fault("zz-duplicate-model", "the model 'mock' is already declared by mock",
          _hook("models", "yield Model('zz-d', ['plain'], aliases=['mock'])")),
    Fault("zz-duplicate-feature", "the feature 'chat' is already declared by chat",
          _hook("features", "yield Feature('chat', NoSettings, respond)",
                "def respond(turn): yield\n")),
    Fault("zz-duplicate-offering", "the offering 'mock at mock' is already declared by mock",
          _hook("offerings", "yield Offering('mock', 'mock', 'm')")),
    Fault("zz-duplicate-command", "the command 'ask' is already declared by genai-host",
          _hook("commands", "yield Command('ask', 'mine', 'zz:ask')")),
    Fault("zz-mute-exception", "Mute: its message cannot be read (str() failed)",
          "class Mute(Exception):\n    def __str__(self): return 1 / 0\nraise Mute"),
    Fault("zz-odd-exception", "ModuleNotFoundError: no", "raise ModuleNotFoundError('no', name=5)"),
    Fault("zz-odd-hint", "PluginError of its own",
          "from genai_host.errors import PluginError\n"
          "raise PluginError('PluginError of its own\\n' + 'x' * 10_000, hint=object())"),
    Fault("zz-mute-object", "which is not of type Model",
          _hook("models", "return [Mute()]",
                "class Mute:\n    def __repr__(self): raise SystemError\n")),
    Fault("zz-endless", "genai_models returned more than 10000 items",
          _hook("models", f"\n    while True: yield {_MODEL.format('zz-e')}")),
    Fault("zz-model-at", "Model 'zz-f': at must be a mapping",
          _hook("models", "yield Model('zz-f', ['plain'], at={'mock'})")),
    Fault("zz-model-parameters", "Model 'zz-g': parameters must be a mapping",
          _hook("models", "yield Model('zz-g', ['plain'], parameters=None)")),
    Fault("zz-offering-id", "Offering 'mock': id must be a non-empty string, not None",
          _hook("offerings", "yield Offering('mock', 'zz', None)")),
    Fault("zz-serve-parameters", "DialectEndpoint: parameters must be a mapping",
          _hooks("class Zz(Provider):\n"
                 "    serves = {'plain': DialectEndpoint(parameters=None)}\n")),
    Fault("zz-dialect-capabilities",
          "Zz 'zz-h': capabilities must be a set of strings, not ['stream']",
          _hooks("class Zz(Dialect):\n    name = 'zz-h'\n    capabilities = ['stream']\n"
                 "    def prepare_request(self, call): pass\n"
                 "    def extract_result(self, call, reply): pass\n"
                 "@hookimpl\ndef genai_dialects(): yield Zz()\n")),
    Fault("zz-feature-settings", "Feature 'zz-i': settings must be an attrs class",
          _hooks("from dataclasses import dataclass\n@dataclass\nclass Settings:\n    x: int = 1\n"
                 "def respond(turn): yield\n"
                 "@hookimpl\ndef genai_features(): yield Feature('zz-i', Settings, respond)\n")),
    Fault("zz-provider-settings", "NameError",
          _hooks("from attrs import frozen\n@frozen\nclass Settings:\n    x: 'NotThere' = 1\n"
                 "@hookimpl\ndef genai_providers():\n"
                 "    yield ProviderType('zz-j', Settings, lambda *a: None)\n")),
    Fault("zz-part-fields", "NameError",
          _hooks("from attrs import frozen\n@frozen\nclass Zz(Part):\n    type = 'zz'\n"
                 "    x: 'NotThere' = 1\n"
                 "@hookimpl\ndef genai_parts(): yield Zz\n")),
    Fault("zz-part-tag", "is not a valid name for a message part",
          _hook("parts", "yield Zz", "class Zz(Part):\n    type = '\\x1b[2J'\n")),
    Fault("zz-command-help", "Command 'zz-k': help must be a string, not None",
          _hook("commands", "yield Command('zz-k', None, 'zz:k')")),
    Fault("zz-tool-name", "Tool 'zz l': name must be a string that matches `[a-zA-Z_]",
          _hook("tools", "yield Tool('zz l', 'x', print)")),
    Fault("zz-tool-type",
          "genai_tools returned <built-in function print>, which is not of type Tool",
          _hook("tools", "yield print")),
    Fault("zz-tool-twice", "declares the tool 'zz_m' twice",
          _hook("tools", "return [Tool('zz_m', 'x', print)] * 2")),
    Fault("zz-tool-async", "zz_n is async: a tool is a plain function",
          _hooks("@tool\nasync def zz_n() -> str:\n    'X.'\n")),
    Fault("zz-tool-untyped", "zz_o: parameter a has no type",
          _hooks("@tool\ndef zz_o(a):\n    'X.'\n")),
    Fault("zz-unreadable", "cannot read its metadata",
          raw=b"[genai_host]\nnot an entry point at all\n"),
)  # fmt: skip
"""Each name sorts after those of the working plugins, which register first the names that it
duplicates.
"""
