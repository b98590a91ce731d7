"""A machine that joins a platform: `python -m swell.executors.node.process FOLDER OPTIONS`.

The options are JSON, see `NodeOptions.command`. There is one process for a state folder: it holds a lock that
its zygote and all workers inherit, so the next one begins only when every process of this one is gone.
`swell node` becomes this program.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import msgspec

from swell.executors.gang.host_messages import FromHost
from swell.executors.limited_log import log_to_stderr
from swell.executors.local.agent.address import AgentRunning, hold_lock
from swell.executors.local.agent.handshakes import Handshakes
from swell.executors.local.agent.options import LOOPBACK, AgentOptions, PlatformSettings
from swell.executors.local.devices import LocalNode
from swell.executors.local.limits.allocation import confine
from swell.executors.local.limits.control_groups import check_sharing
from swell.executors.local.lines import LineLink
from swell.executors.node.options import NodeOptions, read_options
from swell.executors.node.state import HostState, HostStateError, make_folder, unusable
from swell.executors.node.terms import HEARTBEATS_TOGETHER, HostTerms, TermHost
from swell.executors.node.withdrawal import take_order
from swell.executors.remote.join_tokens import JoinToken, read_token
from swell.executors.remote.joining import JoinAccepted, JoinRefused, introduction, join
from swell.executors.storage import why_not_shared
from swell.model.errors import InvalidOption
from swell.model.retry import retry_pause_s
from swell.wire.lease_end import LEASE_FILE, HostClock, ShownEnd
from swell.wire.messages import Hello

TICK_S = 0.1
#: Between two tries to join.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 5.0
#: For the head to hear that this host leaves.
FAREWELL_S = 3.0

#: What a user can put right: one line, no traceback.
KNOWN = (InvalidOption, JoinRefused, HostStateError, AgentRunning)

log = logging.getLogger("swell.node")


class HostProcess:
    """Joins, joins again whenever the line breaks, and ends when it is told to, or cannot join any more."""

    def __init__(
        self, options: NodeOptions, node: LocalNode, token: JoinToken, state: HostState, lock_fd: int
    ) -> None:
        """`options`: completed. Raises HostStateError: there can be no term."""
        self._options, self._node, self._token, self._state = options, node, token, state
        self._lock_fd = lock_fd
        self._session = secrets.token_hex(8)
        self._handshakes = Handshakes(msgspec.json.Decoder(Hello).decode, self._admit)
        self._address = ""
        self._settings = PlatformSettings()  #: whose storage this machine was seen to have
        show_end = ShownEnd(state.folder / LEASE_FILE).show
        try:
            self._terms = HostTerms(
                self._session, state.begin_term, self._new_inside, HostClock().now_s, show_end
            )
        except OSError as error:
            raise unusable(state.folder, error) from error

    def leave(self) -> None:
        """`run` returns in a moment."""
        self._terms.leave()

    def leave_within(self, within_s: float, why: str) -> None:
        """Tell the head, let workers move away, and leave within this time. At once if that is 0."""
        if within_s <= 0:
            self.leave()
            return
        log.info("this host leaves within %g s: %s", within_s, why)
        self._terms.withdraw(within_s, why)

    def end_in_order(self) -> None:
        """SIGTERM: with the time that was granted for it, unless it has come before."""
        is_first = self._terms.withdrawal is None
        why = self._options.sigterm_means or "it was told to end (SIGTERM)"
        self.leave_within(self._options.grace_s if is_first else 0.0, why)

    def take_order(self) -> None:
        """SIGUSR1: see `withdrawal.order_leave`."""
        within_s = take_order(self._state.folder)
        if within_s is not None:
            self.leave_within(within_s, "its owner needs it (`swell node --leave`)")

    async def run(self) -> None:
        """Until it, or the head, says to leave. Every process of ours is gone then.

        Raises JoinRefused: the head will never have it.
        """
        self._address = f"{LOOPBACK}:{await self._handshakes.listen(LOOPBACK)}"
        loop, terms = asyncio.get_running_loop(), self._terms
        ticking, joining = loop.create_task(self._tick()), loop.create_task(self._keep_joined())
        await asyncio.wait([ticking, joining], return_when=asyncio.FIRST_COMPLETED)
        is_refused = joining.done() and not terms.is_over  # once it has left it may well be
        terms.leave()
        await ticking
        joining.cancel()
        await asyncio.wait([joining])
        if terms.stream.has_line:  # the head closes it once it has heard that this host has left
            with suppress(TimeoutError):
                await asyncio.wait_for(terms.line_lost.wait(), FAREWELL_S)
        terms.stream.close()
        await self._handshakes.close()
        if is_refused:
            joining.result()
        if terms.is_removed:
            log.info("the head has ended this host: it was removed from the platform")

    async def _tick(self) -> None:
        """Until nothing is left of it."""
        while not self._terms.is_over:
            self._terms.tick()
            await asyncio.sleep(TICK_S)

    # ------------------------------------------------------------ the head
    async def _keep_joined(self) -> None:
        """Until this host has left. Raises JoinRefused: to try again is of no use."""
        head, name, told, num_failures = self._options.head, self._options.name, "", 0
        while not self._terms.is_over:
            me = introduction(name, self._state.machine, self._session, self._options.advertise)
            try:
                line = await join(head.host, head.port, self._token, me, self._take)
            except JoinRefused as error:
                if error.is_final:
                    raise
                if told != (told := str(error)):
                    log.warning("%s; trying again", error)
                num_failures += 1
                await asyncio.sleep(retry_pause_s(num_failures, FIRST_PAUSE_S, LONGEST_PAUSE_S))
                continue
            log.info("joined the head at %s as %s", head, name)
            told, num_failures = "", 0
            await self._terms.line_lost.wait()
            line.close()

    def _take(self, line: LineLink, accepted: JoinAccepted) -> None:
        """Go on upon this line, as the platform is set now.

        Raises JoinRefused: this machine does not see the storage. That it did once is enough: one that hangs
        takes no lease.
        """
        settings = accepted.settings
        path = self._options.storage or settings.storage
        is_other = settings.storage != self._settings.storage
        if is_other and (why := why_not_shared(Path(path), accepted.mark)):
            raise JoinRefused(
                f"host {self._options.name!r} cannot join: {why}; all machines of a platform have one folder "
                "in common: mount it there, name its path on this machine with `swell node --storage`, or "
                "start the platform with `swell up --storage FOLDER`",
                is_final=True,
            )
        try:
            self._state.note_storage(path, accepted.mark)
        except OSError as error:
            log.warning("`swell doctor` cannot look at the storage (%s): make room on the disk", error)
        self._terms.alive_every_s = HEARTBEATS_TOGETHER * settings.gang_settings.heartbeat_s
        self._settings = settings  # they count from the next term on, if this one has begun to run workers
        self._terms.attach(line)

    # ------------------------------------------------------------ workers
    def _new_inside(self, answer: Callable[[FromHost], None]) -> TermHost:
        modules = [name for name in self._settings.preload if find_spec(name.partition(".")[0]) is not None]
        if lacking := set(self._settings.preload).difference(modules):
            log.warning("this host lacks modules of `--preload`: install %s", ", ".join(sorted(lacking)))
        own = {"preload": tuple(modules), "storage": self._options.storage or self._settings.storage}
        options = AgentOptions(
            **{**msgspec.structs.asdict(self._settings), **own},
            state_dir=self._state.folder,
            sharing=self._options.sharing,
            advertise=self._options.advertise,
            joined_as=self._options.name,
        )
        inside = TermHost(options, self._lock_fd, answer, self._node)
        inside.start(self._address)
        return inside

    def _admit(self, link: LineLink, hello: Hello) -> bool:
        return self._terms.inside is not None and self._terms.inside.admit(link, hello)


async def serve(options: NodeOptions, state: HostState, lock_fd: int) -> None:
    """Raises JoinRefused, InvalidOption."""
    node, token = options.node(), read_token(Path(options.token_file))
    num = len(node.node.devices)
    log.info("host %s has %d device%s (%s)", options.name, num, "" if num == 1 else "s", node.node.kind)
    process = HostProcess(options, node, token, state, lock_fd)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, process.leave)
    loop.add_signal_handler(signal.SIGTERM, process.end_in_order)
    loop.add_signal_handler(signal.SIGUSR1, process.take_order)
    await process.run()


def main() -> None:
    log_to_stderr("%(asctime)s %(message)s")
    try:
        state_dir, options = read_options(sys.argv[1:])
        check_sharing(options.sharing)
        make_folder(state_dir)
        confine(options.sharing.cores)
        lock_fd = hold_lock(state_dir)
        asyncio.run(serve(options, HostState(state_dir), lock_fd))
    except KNOWN as error:
        sys.stderr.write(f"swell: {error}\n")
        sys.exit(2 if isinstance(error, InvalidOption) else 1)  # as `swell` ends
    except Exception as error:  # noqa: BLE001 - a fault of ours: the kernel ends the workers with this process
        what = "".join(traceback.format_exception_only(error)).strip()
        place = traceback.extract_tb(error.__traceback__)[-1]
        sys.exit(
            f"swell: this host has failed, and ends with its workers ({what}, in {place.filename}, line "
            f"{place.lineno}); its jobs go on elsewhere: report it, and start `swell node` again"
        )


if __name__ == "__main__":
    main()
