"""Small files that are written atomically, by one process at a time."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
from collections.abc import Iterator

from genai_host.errors import ConfigurationError
from genai_host.util.paths import ELSEWHERE

MAX_BYTES = 20 * 2**20
"""Maximum size of a file that is read as a whole."""

_SECONDS = 30.0  # timeout of waiting for another process
_WRITER_SECONDS = 5.0  # timeout of waiting for a process that opens a named pipe for writing


@contextlib.contextmanager
def alone(path: str, hint: str = ELSEWHERE) -> Iterator[None]:
    """Context in which no other process changes a file; its directory is created if necessary.
    Raises `ConfigurationError` if the file cannot be written, or another process holds it for too
    long."""
    from filelock import FileLock, Timeout

    lock = FileLock(f"{path}.lock", timeout=_SECONDS)
    with writing(path, hint):
        if os.path.exists(path) and not os.path.isfile(path):  # a device would be replaced
            raise OSError(errno.EINVAL, "not a regular file")
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        # locking would wait even if no file can be created
        os.close(os.open(lock.lock_file, os.O_RDWR | os.O_CREAT, 0o600))
        try:
            lock.acquire()
        except Timeout as error:
            raise ConfigurationError(
                f"another process has been changing {path} for {_SECONDS:g} s",
                file=path,
                hint="try again later",
            ) from error
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def writing(path: str, hint: str = ELSEWHERE) -> Iterator[None]:
    """Context that converts `OSError` to a `ConfigurationError`."""
    try:
        yield
    except OSError as error:
        raise ConfigurationError(
            f"cannot write {path}: {error.strerror or error}", file=path, hint=hint
        ) from error


def read_bytes(path: str, most: int) -> bytes:
    """The content of a file. The size is limited to `most` bytes, since devices and pipes may have
    no end. A pipe is read until its writers close it. Raises `OSError` if it cannot be read, is
    larger, or is a named pipe without a writer, `ValueError` if the path contains a null character.
    """
    with open(path, "rb", opener=_open) as stream:
        data = stream.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"larger than {most >> 20} MiB")
    return data


def _open(path: str, flags: int) -> int:
    """Open a file. `os.open` waits for the writer of a named pipe, and has no timeout."""
    if not stat.S_ISFIFO(os.stat(path).st_mode):
        return os.open(path, flags)
    from concurrent.futures import Future, InvalidStateError

    opened: Future[int] = Future()

    def wait() -> None:
        try:
            descriptor = os.open(path, flags)
        except OSError as error:
            with contextlib.suppress(InvalidStateError):
                opened.set_exception(error)
            return
        try:
            opened.set_result(descriptor)
        except InvalidStateError:  # the caller has timed out
            os.close(descriptor)

    thread = threading.Thread(target=wait, name="pipe", daemon=True)
    thread.start()
    try:
        return opened.result(_WRITER_SECONDS)
    except TimeoutError:
        raise OSError(errno.ETIMEDOUT, "no process writes to this pipe", path) from None
    finally:  # also after Ctrl-C
        if opened.cancel():
            with contextlib.suppress(OSError):  # not if this process may not write to the pipe
                writer = os.open(path, os.O_RDWR | os.O_NONBLOCK)
                thread.join()
                os.close(writer)


def read_text(path: str) -> str | None:
    """The text of a file with its line ends; None if it does not exist. The encoding is UTF-8 or
    that of its byte order mark. Raises `ConfigurationError`, which does not contain its content, if
    it cannot be read or is not text."""
    try:
        data = read_bytes(path, MAX_BYTES)
        from genai_host.util.text import decode_unicode  # most starts read no file

        return decode_unicode(data)
    except (FileNotFoundError, NotADirectoryError):  # for example if the home directory is a file
        return None
    except OSError as error:
        raise ConfigurationError(
            f"cannot read {path}: {error.strerror or error}", file=path
        ) from error
    except ValueError as error:  # also for a name with a null character
        raise ConfigurationError(f"cannot read {path}: {error}", file=path) from None


def _set_as(path: str, other: os.stat_result) -> None:
    """Give a file the owner and the permissions of another."""
    if hasattr(os, "chown"):
        own = os.stat(path)
        if (own.st_uid, own.st_gid) != (other.st_uid, other.st_gid):
            try:
                os.chown(path, other.st_uid, other.st_gid)
            except PermissionError:
                return  # another group must not get the permissions of that of the file
    os.chmod(path, stat.S_IMODE(other.st_mode))


def write_text(path: str, text: str) -> None:
    """Replace a file. A new file is readable only by its owner; one that exists keeps its
    permissions, and its owner if the system allows it. Raises `OSError`, and keeps the old file
    then."""
    unfinished = f"{path}.{os.getpid()}.new"
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as stream:
            with contextlib.suppress(FileNotFoundError):
                _set_as(unfinished, os.stat(path))
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
        raise
