"""An HTTP server that reads OTLP requests."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from tests.live.http_server import Reply, serving


@dataclass
class Collector:
    url: str = ""
    statuses: list[int] = field(default_factory=list)  #: of the next answers; then 200
    spans: list[Span] = field(default_factory=list)  #: of requests that were answered with success
    services: set[str] = field(default_factory=set)  #: names of what sent them
    headers: dict[str, str] = field(default_factory=dict)  #: of the latest request
    reason: str = ""  #: behind the status
    retry_after: str = ""  #: seconds
    is_answering: threading.Event = field(default_factory=threading.Event)  #: unset: requests wait for it

    def take(self, path: str, headers: Message, body: bytes) -> int:
        self.is_answering.wait()
        status = self.statuses.pop(0) if self.statuses else 200
        if status == 200:
            assert (path, headers["content-type"]) == ("/v1/traces", "application/x-protobuf")
            body = gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body
            self.headers = dict(headers)
            for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                told = {one.key: one.value.string_value for one in of_resource.resource.attributes}
                self.services.add(told["service.name"])
                self.spans += [span for scope in of_resource.scope_spans for span in scope.spans]
        return status

    @property
    def names(self) -> set[str]:
        return {span.name for span in self.spans}


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()
    collector.is_answering.set()

    def answer(_method: str, path: str, headers: Message, body: bytes) -> Reply:
        status = collector.take(path, headers, body)
        after = {"retry-after": collector.retry_after} if collector.retry_after else {}
        return Reply(status, {"content-length": "0", **after}, collector.reason)

    with serving(answer) as collector.url:
        try:
            yield collector
        finally:
            collector.is_answering.set()
