"""The door of a platform on a Slurm cluster: small jobs run hosts, as many as open jobs could use."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from swell.executors.controller.controller import Controller
from swell.executors.local.agent.door import DoorError
from swell.executors.local.agent.options import AgentOptions
from swell.executors.slices.door import SliceDoor
from swell.executors.slices.port import ClusterPort
from swell.executors.slurm.engine import SlurmEngine
from swell.executors.slurm.pool_log import PoolLog
from swell.executors.slurm.slurm_client import SlurmClient

#: What slices have printed is kept so long.
KEEP_OUTPUT_S = 7 * 86400.0


class SlurmDoor(SliceDoor):
    """See `local.agent.door.Door`. It goes on without a Slurm that does not answer: hosts may run."""

    sigterm_means = "Slurm takes its slice back (preemption, scancel, or the end of its time)"
    remedy = "`scancel --name=swell-{}`"

    def __init__(
        self, controller: Controller, options: AgentOptions, session: str, port: ClusterPort | None = None
    ) -> None:
        """`port`: in place of the real Slurm. Raises DoorError."""
        engine = msgspec.json.decode(options.engine, type=SlurmEngine)
        output = options.state_dir / "slurm"
        _make_folder(output)
        log = PoolLog(output, engine.num_devices) if engine.is_borrowed else None

        def make_port(platform: str) -> ClusterPort:
            name = f"swell-{platform}"
            return port or SlurmClient(name, engine.partition, engine.submission(), output, log)

        super().__init__(controller, options, session, engine, make_port)


def _make_folder(output: Path) -> None:
    """Where slices print to, without what is old. Raises DoorError."""
    try:
        output.mkdir(mode=0o700, exist_ok=True)
        for path in output.glob("*.out"):
            if path.stat().st_mtime < time.time() - KEEP_OUTPUT_S:
                path.unlink()
    except OSError as error:
        raise DoorError(f"cannot use {output} ({error.strerror}); make room on its disk") from error
