"""A real HTTP server on a free port of this machine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Reply(NamedTuple):
    """Without a body."""

    status: int
    headers: Mapping[str, str]
    reason: str = ""  #: behind the status; empty: the usual one


#: Method, path, headers and body of a request. Each request has a thread of its own.
Answer = Callable[[str, str, Message, bytes], Reply]


@contextmanager
def serving(answer: Answer) -> Iterator[str]:
    """Its address, without a path. The server has ended when the context has."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            reply = answer(self.command, self.path, self.headers, body)
            self.send_response(reply.status, reply.reason or None)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
