"""The door of a platform on a Slurm cluster: small jobs run hosts, as many as open jobs could use."""

from __future__ import annotations

import msgspec

from swell.executors.controller.controller import Controller
from swell.executors.local.agent.options import AgentOptions
from swell.executors.node.options import NodeOptions
from swell.executors.remote.host_address import HostAddress
from swell.executors.slices.door import SliceDoor
from swell.executors.slices.port import ClusterPort
from swell.executors.slurm.engine import SlurmEngine
from swell.executors.slurm.pool_log import PoolLog
from swell.executors.slurm.slurm_client import SlurmClient

PREEMPTED = "Slurm takes its slice back (preemption, scancel, or the end of its time)"


class SlurmDoor(SliceDoor):
    """See `local.agent.door.Door`. It goes on without a Slurm that does not answer: hosts may run."""

    anywhere = HostAddress("0.0.0.0", 0)  # noqa: S104 - at a port that is free
    remedy = "`scancel --name=swell-{}`"

    def __init__(
        self, controller: Controller, options: AgentOptions, session: str, port: ClusterPort | None = None
    ) -> None:
        """`port`: in place of the real Slurm. Raises DoorError."""
        engine = msgspec.json.decode(options.engine, type=SlurmEngine)
        host = NodeOptions(
            devices=engine.slice_devices, is_borrowed=engine.is_borrowed, sigterm_means=PREEMPTED
        )
        output = options.state_dir / "slurm"
        log = PoolLog(output, engine.num_devices) if engine.is_borrowed else None

        def make_port(platform: str) -> ClusterPort:
            name = f"swell-{platform}"
            return port or SlurmClient(name, engine.partition, engine.submission(), output, log)

        super().__init__(controller, options, session, engine, host, make_port)
