"""Where hosts of other machines join an agent, by an address and a token."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from swell.executors.controller.controller import Controller
from swell.executors.leases import UNRECORDED, GrantedLeases, HostTerm, LeaseTimes
from swell.executors.local.agent.door import DoorError
from swell.executors.local.agent.handshakes import Handshakes
from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.lines import LineLink, LineRefused
from swell.executors.remote.certificate import controller_context, fingerprint_of, make_certificate
from swell.executors.remote.host_address import HostAddress, parse_address
from swell.executors.remote.host_door import HostDoor
from swell.executors.remote.join_tokens import TOKENS_FILE, InvalidToken, TokenList, read_token, write_token
from swell.executors.remote.joining import Join, JoinAccepted, torch_version
from swell.executors.storage import write_mark
from swell.wire.lease_end import ProcessClock, granter_now_s
from swell.wire.whole_files import write_whole

#: Hosts end their workers in well under a second; one that is cut off cannot be waited for.
CLOSE_S = 5.0
PORT_FILE = "hosts-port"
LEASES_FILE = "leases.json"
LOOK_EVERY_S = 0.02
NO_JOIN = "the first line is no join message; hosts begin with one: join with `swell`"

log = logging.getLogger("swell.hosts")


class ListeningDoor(HostDoor):
    """See `local.agent.door.Door`."""

    def __init__(self, controller: Controller, options: AgentOptions, session: str) -> None:
        """Raises DoorError: what earlier agents have left cannot be used."""
        self._listen = parse_address(options.listen)
        folder = self.folder = options.state_dir
        try:
            certificate = make_certificate(folder)
            self.fingerprint = fingerprint_of(certificate)  #: no other platform has the same
            self._tokens = TokenList(folder)
            self._seen_tokens = self._tokens.stamp
            leases = open_leases(folder, options.leases, granter_now_s)
            super().__init__(controller, leases, session, torch_version())
            self._handshakes = Handshakes(
                msgspec.json.Decoder(Join).decode, self._greet, controller_context(certificate), NO_JOIN
            )
            self._accepted = JoinAccepted(settings=options.of_platform, mark=write_mark(options.storage_dir))
        except OSError as error:
            where = f"{folder} or {options.storage_dir}"
            raise DoorError(
                f"cannot use {where} for hosts that join ({error.strerror}); make room on its disk"
            ) from error

    async def open(self) -> str:
        where = self._listen
        try:
            port = await self._listen_again() or await self._handshakes.listen(where.host, where.port)
            write_whole(self.folder / PORT_FILE, f"{port}\n".encode(), is_synced=False)
        except OSError as error:
            why = os.strerror(error.errno) if error.errno and error.errno > 0 else "no such address"
            raise DoorError(
                f"hosts cannot join at {where} ({why}); it must be an address of this machine "
                "with a free port: choose another one with --listen"
            ) from error
        host = socket.gethostname() if where.is_any else where.host
        return str(HostAddress(host, port))

    async def _listen_again(self) -> int:
        """Listen at the port of the agent before, where the kernel was to choose one: its hosts look there.

        Returns 0 if there was none, or it is taken: hosts that do not find the agent end with their leases.
        """
        path = self.folder / PORT_FILE
        if self._listen.port or not path.exists():
            return 0
        try:
            return await self._handshakes.listen(self._listen.host, int(path.read_text()))
        except (OSError, ValueError, OverflowError) as error:
            log.warning("hosts of the agent before do not find this one: its port cannot be had (%s)", error)
            return 0

    def _greet(self, line: LineLink, join: Join) -> bool:
        """Let a host in that shows a token in force, and speaks this protocol."""
        try:
            why = self._tokens.why_refused(join.token, join.secret)
            refused = LineRefused(why=why) if why else self.why_not(join)
        except DoorError as error:
            refused = LineRefused(why=f"the head cannot read its join tokens: {error}", is_final=False)
        if refused is None:
            line.send(self._accepted)
            self.joined(line, join)
        else:
            line.refuse(refused.why, is_final=refused.is_final)
        return True

    async def close(self) -> None:
        await self._handshakes.close()
        self.begin_to_close()
        try:
            async with asyncio.timeout(CLOSE_S):
                while self.has_to_wait:
                    await asyncio.sleep(LOOK_EVERY_S)
        except TimeoutError:
            pass  # it does not answer: its workers end with its lease, which the next agent waits for
        self.close_lines()

    def want_devices(self, num: int) -> None:
        """People start hosts, and see in `swell jobs` what waits."""

    # ------------------------------------------------------------ tokens
    def tick(self) -> None:
        super().tick()
        if self._tokens.stamp != self._seen_tokens:
            self._seen_tokens = self._tokens.stamp
            for name, is_revoked in self._tokens.names.items():
                if is_revoked:
                    self.close_lines_of(name)

    def token_file(self, name: str) -> Path:
        """A file with a token for the hosts of an engine: this one, or one made after it was revoked.

        Raises DoorError.
        """
        path = self.folder / f"{name}.join-token"
        with suppress(InvalidToken):  # the first time, or it was damaged
            token = read_token(path)
            if not self._tokens.why_refused(token.name, token.secret.hex()):
                return path
        num_before = sum(one.startswith(name) for one in self._tokens.names)
        try:
            write_token(
                path, self._tokens.add(f"{name}-{num_before + 1}" if num_before else name, self.fingerprint)
            )
        except OSError as error:
            raise DoorError(f"{path} cannot be written ({error.strerror}); make room on its disk") from error
        return path


# ---------------------------------------------------------------- granted leases, on disk for the next agent
def open_leases(folder: Path, times: LeaseTimes, time_s: Callable[[], float]) -> GrantedLeases:
    """Return the leases of a state folder. A grant is on the disk before it is sent.

    Args:
        time_s: the clock of `GrantedLeases`; it may go on while this process is stopped.

    Raises:
        OSError: the file cannot be made.
    """
    path = folder / LEASES_FILE

    def write(records: Sequence[HostTerm]) -> None:
        write_whole(path, msgspec.json.encode(records), is_synced=True)

    try:
        found = msgspec.json.decode(path.read_bytes(), type=list[HostTerm])
    except (OSError, msgspec.MsgspecError) as error:
        found = []
        # A platform that has given out no token has had no host.
        if not isinstance(error, FileNotFoundError) or path.with_name(TOKENS_FILE).exists():
            why = f"{path} cannot be read ({error}), and hosts may have had leases"
            log.warning("%s: waiting %g s for what they may run", why, times.wait_s)
            lost, lease_s = UNRECORDED, times.lease_s
            found = [HostTerm(host=lost, machine=lost, term=0, lease_s=lease_s, is_over=False)]
    return GrantedLeases(times, ProcessClock(time_s).now_s, write, found)
