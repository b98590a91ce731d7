"""Metrics on a port of their own, with a token that opens nothing else: Prometheus needs no other one."""

from __future__ import annotations

import hmac

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from swell.api.answers import failure
from swell.api.prometheus import Exposition
from swell.api.verbs import PROMETHEUS_TEXT
from swell.live.platform import Platform
from swell.store.folder import StateFolder

#: As in `identity`: a page in a browser could come under a name of its own.
HOST_NAMES = ("127.0.0.1", "localhost", "::1")


def create_metrics_app(platform: Platform, folder: StateFolder, is_local: bool = True) -> Starlette:
    """Answers `GET /metrics` alone.

    Args:
        is_local: at loopback, where no other name of the machine is asked for.
    """
    exposition, bearer = Exposition(platform), f"Bearer {folder.ensure_metrics_token()}".encode()

    def metrics(request: Request) -> Response:
        if is_local and request.url.hostname not in HOST_NAMES:
            return failure(403, "metrics are told to 127.0.0.1 and localhost only; use one in the address")
        given = request.headers.getlist("authorization")
        if len(given) != 1 or not hmac.compare_digest(given[0].encode("latin-1"), bearer):
            return failure(
                401,
                "wrong or missing token; send `Authorization: Bearer TOKEN`, "
                f"see `{folder.metrics_token.name}` in the state folder",
            )
        return Response(exposition.text(), media_type=PROMETHEUS_TEXT)

    return Starlette(routes=[Route("/metrics", metrics)])
