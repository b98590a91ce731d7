"""The settings of `swell up --set`: time limits, checkpoints and logs that are kept, with bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any, get_type_hints

import msgspec
from msgspec import Meta

from swell.core.core_settings import CoreSettings
from swell.executors.gang.job_context import GangSettings
from swell.executors.leases import LeaseTimes
from swell.live.pruning import HistoryLimits
from swell.model.errors import InvalidOption
from swell.plugins import did_you_mean, type_hints
from swell.store.code_snapshot import CodeLimits
from swell.throughput.estimate_margins import KEPT_SHARE

Number = int | float

_CORE, _GANG = CoreSettings(), GangSettings()
_RETENTION, _CODE, _LEASES = HistoryLimits(), CodeLimits(), LeaseTimes()

#: Decides unless another one is asked for.
DEFAULT_POLICY = "unified"

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
MOST_BYTES = 1 << 50

#: A worker must not die of a sign of life that was late, or lost.
HEARTBEATS_IN_SILENCE = 4


class InvalidSettings(InvalidOption):
    """No setting has this name, or the value is none that it may have; the text names the remedy."""

    def __init__(self, text: str) -> None:
        super().__init__(f"--set: {text}")


def _seconds(least: float, most: float, meaning: str) -> Meta:
    return Meta(ge=least, le=most, description=meaning)


def _bytes(least: int, meaning: str) -> Meta:
    return Meta(ge=least, le=MOST_BYTES, description=meaning)


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All of them; a field's unit is in its name. Raises InvalidSettings if two do not fit together."""

    # ---- the head: counts from the next `swell up` on
    min_hold_s: Annotated[
        float, _seconds(0, HOUR_S, "Minimum time a job keeps its size, unless a promise needs another one.")
    ] = _CORE.min_hold_s
    report_plan_s: Annotated[
        float,
        _seconds(0.1, HOUR_S, "Minimum time between two plans that are caused by progress reports alone."),
    ] = _CORE.report_plan_s
    estimate_quantile: Annotated[
        float,
        Meta(
            ge=0.5,
            le=0.999,
            description="Share of speed estimates that turn out no more wrong than the margin of a promise.",
        ),
    ] = KEPT_SHARE
    yield_s: Annotated[
        float,
        _seconds(
            1, DAY_S, "Time after which a job is stopped if it does not give up devices that a promise needs."
        ),
    ] = _CORE.yield_s

    # ---- the platform: counts from the next `swell up` on
    keep_days: Annotated[
        float, Meta(ge=0, le=36500, description="Ended jobs are pruned after this many days; 0: never.")
    ] = _RETENTION.keep_days
    keep_bytes: Annotated[
        int,
        _bytes(
            0, "Ended jobs are pruned, oldest first, while their folders hold more than this; 0: no limit."
        ),
    ] = _RETENTION.keep_bytes
    min_free_bytes: Annotated[
        int, _bytes(0, "`swell nodes` warns when the disk of the state folder has less free space than this.")
    ] = _RETENTION.min_free_bytes

    # ---- the agent: counts from its start on
    ready_s: Annotated[
        float,
        _seconds(1, DAY_S, "Time limit from the start of a worker to its call of `swell.train.elastic`."),
    ] = _GANG.ready_s
    silence_s: Annotated[
        float, _seconds(1, DAY_S, "A worker that sends no heartbeat for this long is killed.")
    ] = _GANG.silence_s
    standstill_s: Annotated[
        float,
        _seconds(
            0.5, DAY_S, "The same limit for a worker whose process was stopped by a signal such as SIGSTOP."
        ),
    ] = _GANG.standstill_s
    notice_s: Annotated[
        float, _seconds(1, DAY_S, "Time limit for workers to notice that a worker they wait for is dead.")
    ] = _GANG.notice_s
    boundary_s: Annotated[
        float,
        _seconds(
            1,
            DAY_S,
            "Time limit for a job to reach the end of its step before a resize; the owner is warned then.",
        ),
    ] = _GANG.boundary_s
    stuck_s: Annotated[
        float, _seconds(1, DAY_S, "A worker is killed if the other workers of its job wait for it this long.")
    ] = _GANG.stuck_s
    stop_s: Annotated[float, _seconds(0.1, HOUR_S, "Time from SIGTERM to SIGKILL for a worker.")] = (
        _GANG.stop_s
    )
    finish_s: Annotated[
        float,
        _seconds(
            1,
            7 * DAY_S,
            "Time limit for the part of a script after its training loop, such as an evaluation.",
        ),
    ] = _GANG.finish_s
    leave_s: Annotated[
        float, _seconds(0.1, HOUR_S, "Time limit for the exit of a worker that left its job.")
    ] = _GANG.leave_s
    step_end_s: Annotated[
        float,
        _seconds(
            0, HOUR_S, "Time that SIGTERM is delayed for a step to end, for jobs with elasticity `restart`."
        ),
    ] = _GANG.step_end_s
    restart_s: Annotated[
        float, _seconds(0.1, HOUR_S, "Time from SIGTERM to SIGKILL for jobs with elasticity `restart`.")
    ] = _GANG.restart_s
    trial_s: Annotated[float, _seconds(1, DAY_S, "Time limit of a trial run and of each calibration.")] = (
        _GANG.trial_s
    )
    audit_share: Annotated[
        float, Meta(ge=0, le=1, description="Share of a job's device time in which steps may be verified.")
    ] = _GANG.audit_share
    checkpoint_interval_s: Annotated[
        float,
        _seconds(
            0,
            DAY_S,
            "Time between two checkpoints of a running job that names none, at least 1; 0: it is chosen for "
            "each gang by what a checkpoint takes and how often training is lost.",
        ),
    ] = _GANG.checkpoint_interval_s
    keep_checkpoints: Annotated[
        int, Meta(ge=1, le=1000, description="Number of checkpoints kept for each job, the newest.")
    ] = _GANG.keep_checkpoints
    heartbeat_s: Annotated[float, _seconds(0.05, 60, "Time between two heartbeats of a worker.")] = (
        _GANG.heartbeat_s
    )

    log_bytes: Annotated[
        int, _bytes(1 << 20, "Bytes kept of the output of a job that has no `log_limit`.")
    ] = _GANG.log_bytes
    lease_s: Annotated[
        float,
        _seconds(
            5,
            HOUR_S,
            "Time for which a host that has joined runs workers without an answer of the head. Shorter: a "
            "break of the line ends training there sooner, below 15 also one that is mended at once. Longer: "
            "jobs of a host that died wait longer until they go on elsewhere.",
        ),
    ] = _LEASES.lease_s
    lease_margin_s: Annotated[
        float,
        _seconds(
            2,
            HOUR_S,
            "Time after the end of a lease until the head gives the host's devices away. Shorter: a process "
            "that the kernel ends slowly may still be on a device that another job has.",
        ),
    ] = _LEASES.margin_s
    # ---- submissions: counts from the next `swell up` on
    code_file_mib: Annotated[
        float,
        Meta(ge=0, le=1e6, description="Largest file not tracked by git that is copied with a job's code."),
    ] = _CODE.code_file_mib
    code_total_mib: Annotated[
        float, Meta(ge=0, le=1e6, description="Largest total size of the copy of a job's code.")
    ] = _CODE.code_total_mib
    code_num_files: Annotated[
        int, Meta(ge=1, le=10**7, description="Largest number of files in the copy of a job's code.")
    ] = _CODE.code_num_files

    # ---- policies: count from the next `swell up` on
    parameters: Mapping[
        str, float | str
    ] = {}  #: `tiresias.promote_knob` -> value, where it is not the default

    def __post_init__(self) -> None:
        if self.silence_s < HEARTBEATS_IN_SILENCE * self.heartbeat_s:
            raise InvalidSettings(
                f"silence_s={spell(self.silence_s)} is too short for "
                f"heartbeat_s={spell(self.heartbeat_s)}; it must be at least "
                f"{HEARTBEATS_IN_SILENCE} times as long"
            )
        if 0 < self.checkpoint_interval_s < 1:
            raise InvalidSettings(
                f"checkpoint_interval_s={spell(self.checkpoint_interval_s)} is too short; "
                "it must be 0, which lets Swell choose, or at least 1"
            )

    @property
    def core(self) -> CoreSettings:
        return CoreSettings(
            min_hold_s=self.min_hold_s,
            report_plan_s=self.report_plan_s,
            yield_s=self.yield_s,
            checkpoint_interval_s=self.checkpoint_interval_s,
            unheard_s=self.leases.wait_s,
        )

    @property
    def gang_settings(self) -> GangSettings:
        return GangSettings(**self._of(GangSettings))

    @property
    def leases(self) -> LeaseTimes:
        return LeaseTimes(lease_s=self.lease_s, margin_s=self.lease_margin_s)

    @property
    def retention(self) -> HistoryLimits:
        return HistoryLimits(**self._of(HistoryLimits))

    @property
    def code(self) -> CodeLimits:
        return CodeLimits(**self._of(CodeLimits))

    def _of(self, kind: Any) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(kind)}

    def without_effect(self, *policies: str) -> str:
        """Which parameters are of other policies than these, as a sentence; empty: none is."""
        idle = [
            f"{name}={spell(value)}"
            for name, value in sorted(self.parameters.items())
            if name.partition(".")[0] not in policies
        ]
        return f"without effect, because {', '.join(policies)} decides: {', '.join(idle)}" if idle else ""

    def parameters_of(self, policy: str) -> dict[str, float | str]:
        """Return the parameters of a policy, by name."""
        prefix = f"{policy}."
        return {
            name.removeprefix(prefix): value
            for name, value in self.parameters.items()
            if name.startswith(prefix)
        }

    @property
    def changed(self) -> dict[str, Number | str]:
        """Those that are not as by default."""
        changed: dict[str, Number | str] = {
            known.name: value
            for known in msgspec.structs.fields(self)
            if known.name != "parameters" and (value := getattr(self, known.name)) != known.default
        }
        return {**changed, **self.parameters}


def parse_setting(text: str) -> tuple[str, Number | str]:
    """`ready_s=300`, or a parameter of a policy: `tiresias.promote_knob=4`. Raises InvalidSettings."""
    name, sign, value = text.partition("=")
    if not sign:
        raise InvalidSettings(f"{text!r} is not NAME=VALUE; write for example ready_s=300")
    name = name.strip()
    is_whole = False
    if _is_text(name):
        _check_parameter(name, value)
        return name, value
    if not _is_parameter(name):
        _check_name(name)
        is_whole = get_type_hints(Settings)[name] is int
    try:
        number: Number = int(value) if is_whole else float(value)
    except ValueError as error:
        kind = "a whole number" if is_whole else "a number"
        raise InvalidSettings(f"{text}: {value!r} is not {kind}") from error
    _check_bounds(name, number)
    return name, number


def make_settings(values: Mapping[str, Number | str]) -> Settings:
    """Make settings from these values, by default as far as not given. Raises InvalidSettings."""
    for name, value in values.items():
        if not _is_parameter(name):
            _check_name(name)
        _check_bounds(name, value)
    parameters = {
        name: value if isinstance(value, str) else float(value)
        for name, value in values.items()
        if _is_parameter(name)
    }
    others = {name: value for name, value in values.items() if name not in parameters}
    return Settings(parameters=parameters, **others)  # type: ignore[arg-type]


def _is_parameter(name: str) -> bool:
    return "." in name


def bounds(name: str) -> Meta:
    """What the setting means, and between which numbers it is."""
    meta: Meta = type_hints(Settings)[name].__metadata__[0]
    return meta


def spell(value: Number | str) -> str:
    """The shortest text that is read as the same number; a text as it is."""
    if isinstance(value, str):
        return value
    return str(int(value)) if value == int(value) else repr(value)


def _check_name(name: str) -> None:
    known = [field for field in Settings.__struct_fields__ if field != "parameters"]
    if name not in known:
        others = f"choose from {', '.join(known)}, and parameters of policies such as tiresias.promote_knob"
        raise InvalidSettings(f"there is no setting {name!r}; {did_you_mean(name, known) or others}")


def _is_text(name: str) -> bool:
    """Whether its value is a text: a parameter of a policy such as `unified.gains_by`."""
    if not _is_parameter(name):
        return False
    from swell.policies.registry import is_text

    policy, _, parameter = name.partition(".")
    return is_text(policy, parameter)


def _check_bounds(name: str, value: Number | str) -> None:
    if _is_parameter(name):
        _check_parameter(name, value)
        return
    if isinstance(value, str):
        raise InvalidSettings(f"{name}={value} is not a number; write one")
    meta = bounds(name)
    least, most = meta.ge or 0, meta.le or math.inf
    if not least <= value <= most:  # which no NaN is
        text = spell(value) if math.isfinite(value) else str(value)
        raise InvalidSettings(f"{name}={text} is not between {spell(least)} and {spell(most)}")


def _check_parameter(name: str, value: Number | str) -> None:
    from swell.policies.registry import InvalidParameter, UnknownPolicy, check_parameter  # numpy and all

    policy, _, parameter = name.partition(".")
    try:
        check_parameter(policy, parameter, value)
    except (UnknownPolicy, InvalidParameter) as error:
        raise InvalidSettings(str(error)) from error
