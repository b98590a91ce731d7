"""What devices do, by NVML and by CPU time, and how far gangs use those that they hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.executors.fake_nvml import FakeGpu, FakeNvml

from swell.executors.gang.job_context import DeviceBinding, GangSettings
from swell.executors.local import gpus as nvml_module
from swell.executors.local.agent.device_use import READ_EVERY_S, DeviceUse, Hear, HeldDevices, Read
from swell.executors.local.gpus import XidEvents, read_gpus
from swell.model.usage import DeviceReading, GangUsage, total_reading, total_usage

SETTINGS = GangSettings(idle_s=600.0, idle_share=0.05)
CORE = DeviceBinding(torch_device="cpu", kind="cpu")
PACED = DeviceBinding(torch_device="cpu", kind="paced@4", pace_per_s=4.0)


def gpu(uuid: str) -> DeviceBinding:
    return DeviceBinding(torch_device="cuda:0", kind="cuda:H200", cuda=uuid)


class Machine:
    """A host with one gang, whose time passes, and a driver that may hang."""

    def __init__(self, **bindings: DeviceBinding) -> None:
        self.bindings, self.now_s, self.cpu_s = bindings, 1000.0, 0.0
        self.gpus: dict[str, float] = {}
        self.is_hanging, self.num_asked = False, 0
        self.told: dict[str, DeviceReading] = {}
        self.use = DeviceUse(SETTINGS, self._read)
        self.held = HeldDevices(self.now_s)

    def _read(self, read: Read, hear: Hear) -> None:
        """In place of threads that ask a driver."""
        self.num_asked += 1
        if not self.is_hanging:
            hear({uuid: DeviceReading(use=use) for uuid, use in self.gpus.items()})

    def work(self, for_s: float, cores: float = 0.0, every_s: float = READ_EVERY_S) -> tuple[GangUsage, bool]:
        """The gang computes for so long: usage by then, and whether any of its devices was used."""
        is_used = False
        for _ in range(round(for_s)):
            self.now_s, self.cpu_s = self.now_s + 1.0, self.cpu_s + cores
            self.told |= self.use.tick(self.now_s, self.bindings)
            processes = GangUsage(cpu_s=self.cpu_s)
            usage, is_used_now = self.use.note_usage(self.held, self.bindings, processes, self.now_s, every_s)
            is_used = is_used or is_used_now
        return usage, is_used


def test_nvml_tells_what_each_gpu_does_and_one_that_tells_no_use_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library = FakeNvml(
        FakeGpu("a", use=73),
        FakeGpu("b", use=4, lacks={"memory", "power", "temperature"}),
        FakeGpu("c", lacks={"use"}),
    )
    monkeypatch.setattr(nvml_module, "pynvml", library)
    read = read_gpus(["a", "b", "c"], XidEvents())
    assert read == {
        "a": DeviceReading(
            use=0.73,
            memory_bytes=60 << 30,
            total_memory_bytes=140 << 30,
            power_w=310.499,
            temperature_c=61,
        ),
        "b": DeviceReading(use=0.04),
    }
    assert library.num_inits > 0, "or the driver might be unloaded until the next time"
    together = total_reading(read.values())
    assert together is not None and together.temperature_c == 61
    assert together.use == pytest.approx(0.385)
    assert total_reading([]) is None


LACKS_HEALTH = frozenset({"ecc", "remaps", "clocks", "xids"})


@given(
    st.lists(
        st.builds(
            FakeGpu,
            uuid=st.uuids().map(str),
            is_lost=st.booleans(),
            num_uncorrected=st.integers(0, 2),
            remaps=st.tuples(st.booleans(), st.booleans()),
            slowed=st.integers(0, 2047),
            lacks=st.sets(st.sampled_from(sorted(LACKS_HEALTH))),
        ),
        max_size=4,
        unique_by=lambda gpu: gpu.uuid,
    ),
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from([13, 31, 43, 48, 63, 79, 109]))),
)
def test_a_gpu_is_faulty_exactly_if_it_is_lost_or_has_errors_that_no_program_causes(
    gpus: list[FakeGpu], xids: list[tuple[int, int]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nvml_module, "pynvml", FakeNvml(*gpus))
        events, uuids = XidEvents(), [gpu.uuid for gpu in gpus]
        before = read_gpus(uuids, events)
        own: dict[str, list[int]] = {uuid: [] for uuid in uuids}
        for place, xid in xids:
            for gpu in gpus[place : place + 1]:
                gpu.xids.append(xid)
                own[gpu.uuid] += [xid] if xid in (48, 63, 79) and "xids" not in gpu.lacks else []
        for _ in range(2):  # an event is told once, and the GPU stays faulty
            after = read_gpus(uuids, events)
            assert after.keys() == before.keys() == set(uuids)
            for gpu in gpus:
                has_errors = gpu.num_uncorrected > 0 and "ecc" not in gpu.lacks
                has_remaps = any(gpu.remaps) and "remaps" not in gpu.lacks
                fault = before[gpu.uuid].fault
                assert (fault is not None) == (gpu.is_lost or has_errors or has_remaps)
                is_hit = bool(own[gpu.uuid]) and not gpu.is_lost
                assert (f"Xid {(own[gpu.uuid] or [0])[0]}" in (after[gpu.uuid].fault or "")) == is_hit
                assert is_hit or after[gpu.uuid].fault == fault
                is_slowed = gpu.slowed & 0xE0 and not gpu.is_lost and "clocks" not in gpu.lacks
                assert (after[gpu.uuid].slowed_by is not None) == bool(is_slowed)


def test_a_gpu_that_has_fallen_off_the_bus_is_faulty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its driver answers in one of two ways."""
    monkeypatch.setattr(nvml_module, "pynvml", FakeNvml(FakeGpu("a", is_lost=True)))
    read = read_gpus(["a", "b"], XidEvents())
    assert [one.fault for one in read.values()] == ["it has fallen off the bus"] * 2


def test_without_a_driver_nothing_is_known() -> None:
    assert read_gpus(["GPU-aa"], XidEvents()) == {}


@given(
    st.lists(st.tuples(st.integers(1, 90), st.floats(0.0, 9.0)), min_size=1, max_size=8), st.integers(1, 4)
)
def test_cores_are_used_for_as_long_as_processes_compute_and_no_longer_than_they_are_held(
    parts: list[tuple[int, float]], num: int
) -> None:
    machine = Machine(**{f"n/{number}": CORE for number in range(num)})
    for for_s, cores in parts:
        usage, _ = machine.work(for_s, cores)
    usage, _ = machine.work(READ_EVERY_S)
    assert usage.used_s is not None
    assert usage.used_s <= min(machine.cpu_s, num * (machine.now_s - 1000.0)) + 1e-6
    if all(cores <= num for _, cores in parts):
        assert machine.cpu_s - num * READ_EVERY_S - 1e-6 <= usage.used_s


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100)), min_size=1, max_size=10))
def test_gpus_are_used_as_nvml_tells_whatever_the_processors_do(uses: list[tuple[int, int]]) -> None:
    machine, expected = Machine(a=gpu("A"), b=gpu("B")), 0.0
    machine.gpus = {"A": 0.0, "B": 0.0}
    machine.work(1)
    for one, other in uses:
        machine.gpus = {"A": one / 100, "B": other / 100}
        machine.work(READ_EVERY_S, cores=8.0)
        expected += (one + other) / 100 * READ_EVERY_S
    usage, _ = machine.work(READ_EVERY_S - 1)
    assert usage.used_s == pytest.approx(expected, abs=2 * READ_EVERY_S)


@pytest.mark.parametrize("kind", ["core", "GPU"])
def test_a_device_that_does_nothing_for_ten_minutes_is_idle_until_it_is_used_again(kind: str) -> None:
    machine = Machine(a=CORE, b=CORE) if kind == "core" else Machine(a=gpu("A"), b=gpu("B"))

    def work(for_s: float, is_busy: bool) -> int:
        machine.gpus = {"A": 0.9, "B": 0.9 if is_busy else 0.04}
        return machine.work(for_s, cores=0.6 if is_busy else 0.04)[0].num_idle

    assert work(300, is_busy=True) == 0
    assert work(590, is_busy=False) == 0
    assert work(30, is_busy=False) == (2 if kind == "core" else 1)
    assert work(2 * READ_EVERY_S, is_busy=True) == 0


def test_one_busy_core_of_many_is_use() -> None:
    """Which core a process has, the kernel decides anew each time."""
    machine = Machine(**{f"n/{number}": CORE for number in range(64)})
    usage, is_used = machine.work(1000, cores=1.0)
    assert (usage.num_idle, is_used) == (0, True)


def test_a_driver_that_hangs_stops_nothing_and_is_not_asked_again() -> None:
    machine = Machine(a=gpu("A"))
    machine.is_hanging = True
    usage, is_used = machine.work(2000, cores=1.0)
    assert (usage.used_s, usage.num_idle, is_used, machine.num_asked) == (None, 0, True, 1)
    assert machine.told == {}


def test_what_a_driver_told_long_ago_is_not_told_as_of_now() -> None:
    machine = Machine(a=gpu("A"))
    machine.gpus = {"A": 0.5}
    machine.work(12)
    assert machine.told == {"a": DeviceReading(use=0.5)}
    machine.is_hanging = True
    machine.work(60)
    machine.told.clear()
    machine.work(60)
    assert machine.told == {}


def test_of_paced_devices_no_use_is_known_and_processors_keep_their_session() -> None:
    machine = Machine(a=PACED)
    usage, is_used = machine.work(2000)
    assert (usage.used_s, usage.num_idle, is_used, machine.told) == (None, 0, False, {})
    assert machine.work(20, cores=0.5)[1]


def test_a_session_with_a_short_limit_is_looked_at_more_often() -> None:
    machine = Machine(a=CORE)
    assert machine.work(2, cores=1.0, every_s=1.0)[1] and not machine.work(2, cores=0.0, every_s=1.0)[1]


def test_hosts_add_up_and_memory_and_idle_devices_go_with_the_gang() -> None:
    one = GangUsage(cpu_s=1.0, memory_bytes=5, used_s=3.0, num_idle=1)
    both = total_usage([one, GangUsage(cpu_s=1.0, num_idle=2)])
    assert (both.used_s, both.num_idle) == (3.0, 3)
    assert (one.without_memory.used_s, one.without_memory.num_idle) == (3.0, 0)
