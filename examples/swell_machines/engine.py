"""Machines that a platform starts itself."""

from typing import Annotated

from msgspec import Meta

from swell.executors.engine import Engine
from swell.model.finding import Finding, ok


class Machines(Engine):
    """Processes of this machine, in place of machines of a cloud."""

    name = "machines"
    brings = "processes that stand for machines"
    door = "swell_machines.door:MachinesDoor"
    no_nodes = "no machine has joined yet, which takes some seconds"

    num_machines: Annotated[int, Meta(ge=1, le=16, description="number of machines.")] = 1
    each: Annotated[str, Meta(description="devices of each.", extra={"metavar": "DEVICES"})] = "cpu:1"

    @property
    def about(self) -> str:
        return f"machines that are started: {self.num_machines}; see `swell nodes`"

    def findings(self, listen: str) -> list[Finding]:
        return [ok("machines", f"{self.num_machines} with {self.each} each")]
