"""An HTTP server that keeps what it was sent."""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from typing import Any

from tests.live.http_server import Reply, serving

from swell.live.webhooks import PREFIX


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

    def take(self, headers: Message, body: bytes) -> int:
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

    def answer(method: str, _path: str, headers: Message, body: bytes) -> Reply:
        if method == "POST":
            return Reply(receiver.take(headers, body), receiver.headers)
        receiver.num_gets += 1
        return Reply(204, receiver.headers)

    with serving(answer) as address:
        receiver.url = f"{address}/hook?token=sesame"
        yield receiver
