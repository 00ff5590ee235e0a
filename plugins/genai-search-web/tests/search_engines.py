"""Search engines of the web, played on this machine behind a proxy that goes to none of
them: whoever trusts its certificates and goes through it finds what a test says."""

from __future__ import annotations

import contextlib
import html
import socket
import ssl
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import trustme

MOJEEK = "www.mojeek.com"
DUCKDUCKGO = "html.duckduckgo.com"
WIKIPEDIA = "en.wikipedia.org"


class Page(NamedTuple):
    """What an engine sends; None for a body that never comes."""

    body: bytes | None
    status: int = 200
    headers: Sequence[str] = ()


def mojeek_page(*results: tuple[str, str, str]) -> Page:
    """As Mojeek lays its results out: title, link and text of each."""
    items = "".join(
        f'<li><h2><a href="{html.escape(link)}">{title}</a></h2><p class="s">{text}</p></li>'
        for title, link, text in results
    )
    return Page(f'<html><body><ul class="results-standard">{items}</ul></body></html>'.encode())


def duckduckgo_page(*results: tuple[str, str, str]) -> Page:
    """As DuckDuckGo does for browsers without scripts."""
    items = "".join(
        f'<div class="links_main result__body"><h2><a href="{html.escape(link)}">{title}</a></h2>'
        f'<a class="result__snippet" href="{html.escape(link)}">{text}</a></div>'
        for title, link, text in results
    )
    return Page(f"<html><body>{items}</body></html>".encode())


class SearchEngines:
    """As a context.

    Attributes:
        pages: By host, what it sends; others send a page without results.
        asked: Host and path of each request.
        got: Set once an engine that never answers is asked.
    """

    def __init__(self, folder: Path) -> None:
        self.pages: dict[str, Page] = {}
        self.asked: list[tuple[str, str]] = []
        self.got = threading.Event()
        self.certificates = folder / "search-engines.pem"
        self._authority = trustme.CA()
        self._authority.cert_pem.write_to_path(str(self.certificates))
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def proxy(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> SearchEngines:
        return self

    def __exit__(self, *exc: object) -> None:
        with self._lock:
            for each in (self._listener, *self._sockets):
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                with self._lock:
                    self._sockets.append(client)
                    thread = threading.Thread(target=self._serve, args=(client,), daemon=True)
                    self._threads.append(thread)
                    thread.start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError, ssl.SSLError):
            host = _head(client).split()[1].rpartition(":")[0]
            client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            secure = self._context(host).wrap_socket(client, server_side=True)
            with self._lock:
                self._sockets.append(secure)
            self.asked.append((host, _head(secure).split()[1]))
            page = self.pages.get(host, Page(b"<html><body></body></html>"))
            if page.body is None:
                self.got.set()
                secure.recv(1)
                return
            lines = [
                f"HTTP/1.1 {page.status} As It Is", "Content-Type: text/html", "Connection: close",
                f"Content-Length: {len(page.body)}", *page.headers,
            ]  # fmt: skip
            secure.sendall("\r\n".join([*lines, "", ""]).encode() + page.body)
            secure.close()

    def _context(self, host: str) -> ssl.SSLContext:
        with self._lock:
            if host not in self._contexts:
                context = self._contexts[host] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                self._authority.issue_cert(host).configure_cert(context)
            return self._contexts[host]


def _head(client: socket.socket) -> str:
    head = b""
    while b"\r\n\r\n" not in head:
        piece = client.recv(4096)
        if not piece:
            raise OSError("it ended before its head")
        head += piece
    return head.decode("latin-1")
