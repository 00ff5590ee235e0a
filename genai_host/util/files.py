"""Small files that are written whole, or not at all, by one process at a time. Nobody but
their owner can read them."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator

from genai_host.errors import ConfigurationError
from genai_host.util.paths import ELSEWHERE
from genai_host.util.text_encoding import encoding_of

_SECONDS = 30.0  # to wait for another process that changes the file


@contextlib.contextmanager
def alone(path: str, hint: str = ELSEWHERE) -> Iterator[None]:
    """While it lasts, no other process changes the file; its folder is made if there is
    none. Raises `ConfigurationError` if it cannot be written, or after a while."""
    from filelock import FileLock, Timeout

    lock = FileLock(f"{path}.lock", timeout=_SECONDS)
    with writing(path, hint):
        if os.path.exists(path) and not os.path.isfile(path):  # a device would be replaced
            raise OSError(errno.EINVAL, "it is no file")
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        # a lock would be waited for as well where no file can be made
        os.close(os.open(lock.lock_file, os.O_RDWR | os.O_CREAT, 0o600))
        try:
            lock.acquire()
        except Timeout as error:
            raise ConfigurationError(
                f"another process has been changing {path} for {_SECONDS:g} s",
                file=path,
                hint="try again when it is done",
            ) from error
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def writing(path: str, hint: str = ELSEWHERE) -> Iterator[None]:
    """What the system refuses meanwhile becomes a `ConfigurationError`."""
    try:
        yield
    except OSError as error:
        raise ConfigurationError(
            f"cannot write {path}: {error.strerror or error}", file=path, hint=hint
        ) from error


def read_text(path: str) -> str | None:
    """What a file holds, with its line ends; None if there is none. It is UTF-8, or what its byte
    order mark says. Raises `ConfigurationError` if it cannot be read, or is no text; what it holds
    is not in the error, nor in what caused that."""
    try:
        with open(path, "rb") as stream:
            data = stream.read()
        return data.decode(encoding_of(data))
    except (FileNotFoundError, NotADirectoryError):  # as below a home that is no folder
        return None
    except OSError as error:
        raise ConfigurationError(
            f"cannot read {path}: {error.strerror or error}", file=path
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(
            f"cannot read {path}: not {error.encoding.upper()} at byte {error.start}", file=path
        ) from None


def write_text(path: str, text: str) -> None:
    """Put a text in a file's place. Raises `OSError`, and leaves the old one then."""
    unfinished = f"{path}.{os.getpid()}.new"
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
        raise
