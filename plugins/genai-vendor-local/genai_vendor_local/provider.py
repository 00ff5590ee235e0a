"""The provider `local`: requests in OpenAI's format, answered in this process."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen

from genai_host.api import (
    FREE,
    STANDARD,
    CancelToken,
    DialectEndpoint,
    ListedModel,
    Preparation,
    PreparationProgress,
    Provider,
    ProviderReply,
    ProviderRequest,
    ReplyStream,
    Services,
    StreamEvent,
    parameter,
)
from genai_host.errors import (
    ConfigurationError,
    ContextOverflow,
    GenaiError,
    IncompleteReply,
    ProviderRemoved,
)
from genai_vendor_local import Settings, openmp
from genai_vendor_local.engine import EMBEDDER, EMBEDDER_STEP, Embedder, has_embedder
from genai_vendor_local.tool_choice import ToolChoice, in_plain_text
from genai_vendor_local.weights import DEFAULT, KNOWN, checked_in, known, locate

if TYPE_CHECKING:  # imported when the provider is called
    from genai_vendor_local.engine import Chunks, Engine


_SYSTEM = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")


def free_memory(system: Path = _SYSTEM, group: Path = _GROUP) -> int | None:
    """Return the bytes available without swapping; None if unknown.

    On Linux, it is `MemAvailable` (proc_meminfo(5)), or the remainder of a control group's limit if
    that is less (`memory.max`, Linux's documentation of cgroup v2), for example in a container.
    """
    kilobytes = _field(system, "MemAvailable:")
    if kilobytes is None:
        return None
    available = kilobytes * 1024
    limit, used = _number(_text(group / "memory.max")), _number(_text(group / "memory.current"))
    if limit is None or used is None:
        return available
    cache = _field(group / "memory.stat", "inactive_file") or 0  # reclaimable
    return min(available, max(limit - used + cache, 0))


def _field(file: Path, name: str) -> int | None:
    lines = (line.split() for line in _text(file).splitlines())
    return next((_number(line[1]) for line in lines if len(line) > 1 and line[0] == name), None)


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""


def _number(text: str) -> int | None:
    """Parse a number; None for `max`, which means no limit."""
    return int(text) if text.strip().isdigit() else None


_TOO_LONG = 413  # RFC 9110, Content Too Large

_OWN_PARAMETERS: Mapping[str, Any] = {
    "reasoning_effort": False,
    "parallel_tool_calls": False,
    "top_k": STANDARD["top_k"],
    "min_p": parameter(
        "number",
        "minimum probability of a token, relative to the likeliest one",
        minimum=0,
        maximum=1,
    ),
    "repeat_penalty": parameter(
        "number", "repetition penalty; above 1 reduces repetition", minimum=0
    ),
}


class LocalProvider(Provider):
    serves = {
        "openai-chat": DialectEndpoint(unsupported={"images", "files"}, parameters=_OWN_PARAMETERS),
        "openai-chat-count": DialectEndpoint(unsupported={"images", "files"}),
        "openai-embed": DialectEndpoint(
            variant={"purpose": "input_type"}, parameters={"dimensions": False}
        ),
    }
    default_models = {"chat": DEFAULT.model, "embed": "multilingual-e5-small"}
    # a CPU can take minutes to process a long prompt
    call_limits = {"first_token_timeout": 600, "read_timeout": 300, "timeout": 3600}

    def __init__(self, settings: Settings, services: Services) -> None:
        self._settings = settings
        self.window = settings.window
        self._name = services.instance
        self._folder = services.data_dir
        self._lock = threading.Lock()
        self._engines: dict[tuple[str, bool], Engine] = {}
        self._embedder = Embedder()
        self._closed = False

    def unavailable_reason(self) -> str | None:
        if find_spec("xllamacpp") is None:
            return "llama.cpp is not installed: genai-host install genai-vendor-local"
        return None

    def unavailable_models(self) -> Mapping[str, str]:
        return _Reasons(partial(_missing, self._folder))

    def probe(self, limits: CancelToken) -> Mapping[str, str]:
        """Load llama.cpp, and compare the sizes of models with the free memory."""
        if openmp.is_missing(self._folder):
            return {}  # reported by `unavailable_models`
        openmp.load(self._folder)
        try:
            import xllamacpp  # noqa: F401 - whether it can be loaded is the question
        except (ImportError, OSError) as error:
            raise ConfigurationError(f"llama.cpp cannot be loaded: {error}") from error
        return _Reasons(partial(_too_large, self._folder, free_memory()))

    def preparation(self, model_id: str = "") -> Preparation | None:
        weights = known(model_id or DEFAULT.name)
        if weights is None:
            return None
        if weights.file(self._folder).is_file() and not openmp.is_missing(self._folder):
            return None

        def run(report: Callable[[PreparationProgress], None], limits: CancelToken) -> None:
            from genai_vendor_local.downloads import pull

            pull(weights, self._folder, report=report, limits=limits)
            openmp.pull(self._folder, report=report, limits=limits)

        size = round(weights.size / 1e6)
        return Preparation(f"Download the weights of {weights.model} ({size} MB)", run)

    def price_provider(self, model_id: str) -> str:
        return FREE

    def list_models(self, limits: CancelToken) -> Iterable[ListedModel]:
        for weights in KNOWN:
            if weights.file(self._folder).is_file():
                yield ListedModel(weights.name, ("openai-chat",))
        if has_embedder():
            yield ListedModel(EMBEDDER, ("openai-embed",))

    def send(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
        body = json.loads(request.data())
        if request.operation == "embed":
            return self._embed(request.model_id, body, limits)
        if request.operation == "count":
            return self._count(request.model_id, body, limits)
        reply = self._chat(request.model_id, {**body, "stream": True, **_WITH_USAGE}, limits)
        with limits.on_cancel(reply.close):
            return ProviderReply(_whole(reply))

    def stream(self, request: ProviderRequest, limits: CancelToken) -> ReplyStream:
        return self._chat(request.model_id, json.loads(request.data()), limits)

    def map_error(self, reply: ProviderReply) -> GenaiError | None:
        if reply.status != _TOO_LONG:
            return None
        return ContextOverflow(
            json.loads(reply.body)["error"]["message"],
            hint=f"shorten the prompt, or raise providers.{self._name}.window",
            status=reply.status,
        )

    def close(self) -> None:
        with self._lock:
            self._closed = True
            engines = list(self._engines.values())
            self._engines.clear()
        for engine in engines:
            engine.close()
        self._embedder.close()

    def _chat(self, model_id: str, body: dict[str, Any], limits: CancelToken) -> _Reply:
        engine = self._engine(model_id)
        body.setdefault("max_tokens", self._settings.max_tokens)
        body["return_progress"] = True  # so that a long prompt can be cancelled
        if "response_format" in body:
            body["response_format"] = _with_required_properties(body["response_format"])
        if body.get("tool_choice") == "none":
            body.pop("tools", None)
            body.pop("tool_choice")
        if self._settings.tools == "template":
            return _Reply(engine.chat(body, limits))
        if body.get("tools"):
            choice = ToolChoice(body)
            return _Reply(engine.chat(choice.request(), limits), choice.delta)
        body["messages"] = list(in_plain_text(body["messages"]))
        return _Reply(engine.chat(body, limits))

    def _count(self, model_id: str, body: dict[str, Any], limits: CancelToken) -> ProviderReply:
        """Count the tokens of a prompt, which llama.cpp reports before processing it."""
        chunks = self._chat(model_id, {**body, "max_tokens": 1, "stream": True}, limits)
        with limits.on_cancel(chunks.close):
            for event in chunks:
                found = json.loads(event.data)
                error = found.get("error", {})
                tokens = found.get("prompt_progress", {}).get("total") or error.get(
                    "n_prompt_tokens"  # the prompt exceeds the window
                )
                chunks.close()
                if tokens is None:
                    return _refusal(error)
                return ProviderReply(_dumps({"input_tokens": tokens}))
        limits.check()
        raise IncompleteReply("llama.cpp ended before it counted the prompt")

    def _embed(self, model_id: str, body: dict[str, Any], limits: CancelToken) -> ProviderReply:
        """Embed the texts one by one, which is equally fast and can be cancelled in between."""
        query = body.pop("input_type", "document") == "query"
        engine = None if model_id == EMBEDDER else self._engine(model_id, embedding=True)
        data: list[dict[str, Any]] = []
        tokens = 0
        for at, text in enumerate(body["input"]):
            if engine is None:
                vector, count = self._embedder.embed(text, limits, query=query)
            else:
                reply = json.loads(engine.embed({**body, "input": [text]}, limits))
                if "error" in reply:
                    return _refusal(reply["error"])
                vector, count = reply["data"][0]["embedding"], reply["usage"]["prompt_tokens"]
            data.append({"index": at, "embedding": vector})
            tokens += count
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return ProviderReply(_dumps({"model": model_id, "data": data, "usage": usage}))

    def _engine(self, model_id: str, *, embedding: bool = False) -> Engine:
        file = locate(model_id, self._folder)
        openmp.load(self._folder)
        with self._lock:
            if self._closed:
                raise ProviderRemoved("the local provider was closed")
            key = (str(file), embedding)
            if key not in self._engines:
                from genai_vendor_local.engine import Engine

                checked = checked_in(self._folder)
                self._engines[key] = Engine(file, self._settings, checked, embedding=embedding)
            return self._engines[key]


class _Reasons(Mapping[str, str]):
    """Reasons why ids cannot run, None for one that can. Evaluated on access, because files can
    change."""

    def __init__(self, reason: Callable[[str], str | None]) -> None:
        self._reason = reason

    def __getitem__(self, id: str) -> str:
        reason = self._reason(id)
        if reason is None:
            raise KeyError(id)
        return reason

    def __iter__(self) -> Iterator[str]:
        return (id for id in (*(weights.name for weights in KNOWN), EMBEDDER) if id in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _missing(folder: Path, id: str) -> str | None:
    if id == EMBEDDER:
        return None if has_embedder() else f"{id} is not installed: {EMBEDDER_STEP}"
    try:
        locate(id, folder)
    except ConfigurationError as error:
        return error.message
    return openmp.missing() if openmp.is_missing(folder) else None


def _too_large(folder: Path, free: int | None, id: str) -> str | None:
    """Return a reason for a model that is larger than the free memory."""
    if free is None or id == EMBEDDER:
        return None
    try:
        size = locate(id, folder).stat().st_size
    except (ConfigurationError, OSError):
        return None  # reported by `unavailable_models`
    if size <= free:
        return None
    return f"it needs {size / 1e6:.0f} MB of memory, and {free / 1e6:.0f} MB are free"


@frozen(eq=False, repr=False)
class _Reply:
    """The events of a reply, with the end marker that llama.cpp omits. `choose` converts the whole
    text to one delta if the text is a choice of tools."""

    _chunks: Chunks
    _choose: Callable[[str], dict[str, Any]] | None = None

    def __iter__(self) -> Iterator[StreamEvent]:
        held: list[str] = []
        for chunk in self._chunks:
            data = chunk if self._choose is None else self._held(chunk, held)
            if data:
                yield StreamEvent(data)
        if self._chunks.complete:
            yield StreamEvent(b"[DONE]")

    def close(self) -> None:
        self._chunks.close()

    def _held(self, chunk: bytes, held: list[str]) -> bytes:
        """Hold the text back until the choice is complete; it is sent with the finish reason."""
        data = json.loads(chunk)
        if "error" in data or not data.get("choices"):
            return chunk
        choice = data["choices"][0]
        held.append((choice.get("delta") or {}).get("content") or "")
        if not choice.get("finish_reason"):
            return b""
        assert self._choose is not None
        choice["delta"] = self._choose("".join(held))
        return _dumps(data)


_DATA = ("const", "default", "enum", "examples")
"""Keywords of a schema that contain data instead of schemas."""


def _with_required_properties(schema: Any) -> Any:
    """Add each required name to a schema's properties: llama.cpp's grammar allows only these."""
    if isinstance(schema, list):
        return [_with_required_properties(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    made = {
        name: each if name in _DATA else _with_required_properties(each)
        for name, each in schema.items()
    }
    required = made.get("required")
    if isinstance(required, list) and "$ref" not in made:
        others = made.get("additionalProperties")
        usual = others if isinstance(others, Mapping) else {}
        stated = dict.fromkeys((each for each in required if isinstance(each, str)), usual)
        made["properties"] = {**stated, **made.get("properties", {})}
    return made


def _refusal(error: Mapping[str, Any]) -> ProviderReply:
    # the only internal error of embeddings: a text longer than a batch, which is the window here
    status = _TOO_LONG if error.get("code") == 500 else error.get("code", 400)
    return ProviderReply(_dumps({"error": {"message": error.get("message")}}), status)


_WITH_USAGE = {"stream_options": {"include_usage": True}}


def _whole(reply: _Reply) -> bytes:
    """Return a complete reply in OpenAI's format from its events."""
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    whole: dict[str, Any] = {"choices": [{"index": 0, "message": message}]}
    for event in reply:
        if event.data == b"[DONE]":
            return _dumps(whole)
        data = json.loads(event.data)
        if "error" in data:
            return event.data
        whole["usage"] = data.get("usage") or whole.get("usage")
        for choice in data.get("choices", ()):
            delta = choice.get("delta") or {}
            message["content"] += delta.get("content") or ""
            if delta.get("tool_calls"):
                message["tool_calls"] = delta["tool_calls"]
            whole["choices"][0]["finish_reason"] = choice.get("finish_reason")
    return b""


def _dumps(value: Any) -> bytes:
    return json.dumps(value).encode()
