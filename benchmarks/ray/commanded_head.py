"""A head of Swell on Ray whose decisions come from elsewhere: a program for a machine.

    python -m benchmarks.ray.commanded_head ADDRESS STORAGE

ADDRESS is of Ray, STORAGE a folder that all machines see. It prints events and reads commands, each a line of
JSON; a number is how many devices the job could use.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import msgspec

from benchmarks.ray.settings import CHECKPOINT_INTERVAL_S
from benchmarks.ray.site import NUM_NODES
from swell.executors.gang.job_context import GangSettings
from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.link import LocalExecutor
from swell.executors.ray.engine import RayEngine
from swell.model.command import GangCommand
from swell.model.event import AnyEvent, NodeJoined

_printing = threading.Lock()


def say(line: bytes) -> None:
    with _printing:
        sys.stdout.buffer.write(line + b"\n")
        sys.stdout.buffer.flush()


def main() -> None:
    state_dir = Path(os.environ["SWELL_STATE"])
    settings = GangSettings(checkpoint_interval_s=CHECKPOINT_INTERVAL_S)
    executor = LocalExecutor(
        AgentOptions(
            state_dir=state_dir,
            storage=sys.argv[2],
            gang_settings=settings,
        ),
        (),
        RayEngine(address=sys.argv[1], max_nodes=NUM_NODES, idle_s=0),
    )

    def tell(event: AnyEvent) -> None:
        say(msgspec.json.encode(event))
        executor.acknowledge()

    found = executor.start(tell)
    for node in found.nodes:
        say(msgspec.json.encode(NodeJoined(at_s=0.0, node=node)))
    for line in sys.stdin:
        command = msgspec.json.decode(line, type=GangCommand | int)
        if isinstance(command, int):
            executor.want_devices(command)
        else:
            executor.perform(command)
    executor.shut_down()


if __name__ == "__main__":
    main()
