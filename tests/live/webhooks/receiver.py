"""A real HTTP server that keeps what it was sent."""

from __future__ import annotations

import base64
import hmac
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from swell.live.webhooks.signature import PREFIX


@dataclass
class Receiver:
    """Checks signatures as a receiver would, without our code."""

    secret: str
    url: str = ""
    statuses: list[int] = field(default_factory=list)  #: of the next answers; then 204
    headers: dict[str, str] = field(default_factory=dict)  #: of every answer
    ids: list[str] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)  #: of requests that were answered with success
    num_requests: int = 0
    num_gets: int = 0

    def take(self, headers: Any, body: bytes) -> int:
        self.num_requests += 1
        key = base64.b64decode(self.secret.removeprefix(PREFIX))
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        expected = base64.b64encode(hmac.new(key, signed, "sha256").digest()).decode()
        assert headers["webhook-signature"] == f"v1,{expected}"
        status = self.statuses.pop(0) if self.statuses else 204
        if status < 300:
            self.ids.append(headers["webhook-id"])
            self.bodies.append(json.loads(body))
        return status

    def told(self) -> list[tuple[str, str]]:
        return [(body["data"]["name"], body["type"]) for body in self.bodies]


@contextmanager
def receiving(secret: str) -> Iterator[Receiver]:
    receiver = Receiver(secret)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            self._answer(receiver.take(self.headers, body))

        def do_GET(self) -> None:
            receiver.num_gets += 1
            self._answer(204)

        def _answer(self, status: int) -> None:
            self.send_response(status)
            for name, value in receiver.headers.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_port}/hook?token=sesame"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
