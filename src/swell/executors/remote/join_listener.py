"""Where hosts join: lets in who shows a token that is in force and speaks this protocol."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from swell.executors.local.agent.handshakes import Handshakes
from swell.executors.local.agent.options import PlatformSettings
from swell.executors.local.lines import LineLink, LineRefused
from swell.executors.remote.certificate import controller_context
from swell.executors.remote.join_tokens import TokenList, TokenListError
from swell.executors.remote.messages import JOIN_PROTOCOL, Join, JoinAccepted, why_not_understood
from swell.wire.lines import NO_MESSAGE


class JoinListener:
    """Hands over each line whose host may join."""

    def __init__(
        self,
        certificate: Path,
        tokens: TokenList,
        version: str,
        joined: Callable[[LineLink, Join], None],
        why_not: Callable[[Join], LineRefused | None] = lambda join: None,
        settings: PlatformSettings | None = None,
        mark: str = "",
    ) -> None:
        """`joined` sets `heard` and `closed` of the line. `why_not`: asked before, of who has a token.

        `settings` and `mark`: told to hosts that join.

        Raises:
            UnusableCertificate: see `certificate.py`.
        """
        self._handshakes = Handshakes(self._decide, controller_context(certificate))
        self._tokens, self._version = tokens, version
        self._joined, self._why_not = joined, why_not
        self._accepted = JoinAccepted(protocol=JOIN_PROTOCOL, version=version, settings=settings, mark=mark)
        self.listen, self.close = self._handshakes.listen, self._handshakes.close

    def _decide(self, line: LineLink, text: bytes) -> None:
        try:
            join = msgspec.json.decode(text, type=Join)
        except NO_MESSAGE:
            line.refuse("the first line is no join message; hosts begin with one: join with `swell`")
            return
        try:
            why = self._tokens.why_refused(join.token, join.secret)
        except TokenListError as error:
            line.refuse(f"the head cannot read its join tokens: {error}", is_final=False)
            return
        why = why or why_not_understood(join, self._version)
        refused = LineRefused(why=why) if why else self._why_not(join)
        if refused is not None:
            line.refuse(refused.why, is_final=refused.is_final)
            return
        line.send(self._accepted)
        self._joined(line, join)
