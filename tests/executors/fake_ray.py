"""Ray as the bridge sees it, in memory: nodes, units that others take, reservations and hosts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from swell.executors.ray.ray_port import HostOrder, Reservation, SeenNode


@dataclass
class FakeRay:
    """See `RayPort`. What outlives a bridge is here."""

    seen: dict[str, SeenNode] = field(default_factory=dict)  #: by id
    others: dict[str, int] = field(default_factory=dict)  #: units that other users have, by id of the node
    reserved: dict[str, str] = field(default_factory=dict)  #: id of the node, by reservation
    waiting: dict[str, str] = field(default_factory=dict)
    started: dict[str, HostOrder] = field(default_factory=dict)  #: hosts, by actor
    ended: dict[str, str] = field(default_factory=dict)  #: why, by actor
    gpus: dict[str, tuple[str, ...]] = field(default_factory=dict)
    resource: str = "CPU"
    watched: set[str] = field(default_factory=set)  #: hosts, by actor
    num_added: int = 0
    address: str = "10.0.0.1"

    def add(self, name: str, num: int, **about: object) -> str:
        """A node; returns its id."""
        self.num_added += 1
        node_id = f"{self.num_added:06d}{name}"
        node = SeenNode(id=node_id, name=name, total={self.resource: float(num)})
        self.seen[node_id] = replace(node, **about)  # type: ignore[arg-type]
        return node_id

    def change(self, node_id: str, **about: object) -> None:
        self.seen[node_id] = replace(self.seen[node_id], **about)  # type: ignore[arg-type]

    def num_free(self, node_id: str) -> int:
        total = int(self.seen[node_id].total[self.resource])
        return total - self.others.get(node_id, 0) - list(self.reserved.values()).count(node_id)

    # ------------------------------------------------------------ RayPort
    def nodes(self) -> list[SeenNode]:
        return [
            replace(node, free={self.resource: float(self.num_free(node.id))}) for node in self.seen.values()
        ]

    def reserve(self, name: str, node_id: str, resource: str) -> None:
        assert name not in self.reserved and name not in self.waiting, "names are used once"
        assert resource == self.resource
        self.waiting[name] = node_id
        self._serve()

    def _serve(self) -> None:
        for name, node_id in list(self.waiting.items()):
            if node_id in self.seen and self.num_free(node_id) > 0:
                self.reserved[name] = self.waiting.pop(name)

    def reservation(self, name: str) -> Reservation:
        self._serve()
        if name in self.reserved:
            return Reservation.MADE if self.reserved[name] in self.seen else Reservation.GONE
        return Reservation.PENDING if name in self.waiting else Reservation.GONE

    def release(self, name: str) -> None:
        self.reserved.pop(name, None)
        self.waiting.pop(name, None)

    def reservations(self, prefix: str) -> dict[str, Reservation]:
        names = [name for name in (*self.reserved, *self.waiting) if name.startswith(prefix)]
        return {name: self.reservation(name) for name in names}

    def find_gpus(self, name: str) -> tuple[str, ...] | None:
        return self.gpus.get(name.split(":")[2])

    def start_host(self, actor: str, node_id: str, order: HostOrder) -> None:
        self.started.setdefault(actor, order)
        self.watched.add(actor)

    def host_end(self, actor: str) -> str | None:
        assert actor in self.watched
        return self.ended.pop(actor, None)

    def hosts(self, prefix: str) -> list[str]:
        return [actor for actor in self.started if actor.startswith(prefix)]

    def forget_host(self, actor: str) -> None:
        self.watched.discard(actor)

    def end_host(self, actor: str) -> None:
        self.watched.discard(actor)
        self.started.pop(actor, None)
