"""A local proxy that tunnels (RFC 9110, 9.3.6), or refuses to."""

from __future__ import annotations

import contextlib
import socket
import threading


class Tunnel:
    """A proxy that connects to any requested address; a context manager.

    Attributes:
        refuses: Status with which it refuses; None if it does not refuse.
        heads: Heads of the received requests.
    """

    def __init__(self, refuses: int | None = None) -> None:
        self._refuses = refuses
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = [self._listener]
        self.heads: list[str] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://me:pass@127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Tunnel:
        return self

    def __exit__(self, *exc: object) -> None:
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._sockets.append(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += client.recv(1)
            self.heads.append(head.decode("latin-1"))
            if self._refuses is not None:
                client.sendall(f"HTTP/1.1 {self._refuses} No\r\nContent-Length: 0\r\n\r\n".encode())
                client.close()
                return
            host, _, port = head.split(b" ")[1].decode().rpartition(":")
            server = socket.create_connection((host, int(port)))
            self._sockets.append(server)
            client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            threading.Thread(target=_pump, args=(server, client), daemon=True).start()
            _pump(client, server)


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
