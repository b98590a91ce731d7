"""The settings of `swell up --set`: time limits, checkpoints and logs that are kept, with bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

import msgspec
from msgspec import Meta

from swell.core.core_settings import CoreSettings
from swell.executors.gang.job_context import GangSettings
from swell.executors.leases import LeaseTimes
from swell.live.pruning import HistoryLimits
from swell.live.user_rates import RateLimits
from swell.model.code import CodeLimits
from swell.model.errors import InvalidOption
from swell.plugins import did_you_mean
from swell.throughput.estimate_margins import KEPT_SHARE

Number = int | float

_PARTS = (CoreSettings(), GangSettings(), HistoryLimits(), CodeLimits(), RateLimits())
_LEASES = LeaseTimes()

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


def _rule(least: float, most: float, meaning: str) -> Meta:
    return Meta(ge=least, le=most, description=meaning)


#: By name; a setting's unit is in it. Defaults are those of the parts that they count in.
RULES = {
    # ---- the head: counts from the next `swell up` on
    "min_hold_s": _rule(0, HOUR_S, "Minimum time a job keeps its size, unless a promise needs another one."),
    "half_life_s": _rule(
        0,
        3650 * DAY_S,
        "Time after which what an account has used counts half where jobs without a promise are ordered by "
        "it (`--half-life`); 0: they are not ordered by it, nor by how long they have waited.",
    ),
    "report_plan_s": _rule(
        0.1, HOUR_S, "Minimum time between two plans that are caused by progress reports alone."
    ),
    "estimate_quantile": _rule(
        0.5, 0.999, "Share of speed estimates that turn out no more wrong than the margin of a promise."
    ),
    "yield_s": _rule(
        1, DAY_S, "Time after which a job is stopped if it does not give up devices that a promise needs."
    ),
    # ---- the platform: counts from the next `swell up` on
    "keep_days": _rule(0, 36500, "Ended jobs are pruned after this many days; 0: never."),
    "keep_bytes": _rule(
        0,
        MOST_BYTES,
        "Ended jobs are pruned, oldest first, while their folders hold more than this; 0: no limit.",
    ),
    "min_free_bytes": _rule(
        0, MOST_BYTES, "`swell nodes` warns when the disk of the state folder has less free space than this."
    ),
    # ---- the agent: counts from its start on
    "ready_s": _rule(1, DAY_S, "Time limit from the start of a worker to its call of `swell.train.elastic`."),
    "silence_s": _rule(1, DAY_S, "A worker that sends no heartbeat for this long is killed."),
    "standstill_s": _rule(
        0.5, DAY_S, "The same limit for a worker whose process was stopped by a signal such as SIGSTOP."
    ),
    "notice_s": _rule(1, DAY_S, "Time limit for workers to notice that a worker they wait for is dead."),
    "boundary_s": _rule(
        1,
        DAY_S,
        "Time limit for a job to reach the end of its step before a resize; the owner is warned then.",
    ),
    "stuck_s": _rule(1, DAY_S, "A worker is killed if the other workers of its job wait for it this long."),
    "stop_s": _rule(0.1, HOUR_S, "Time from SIGTERM to SIGKILL for a worker."),
    "finish_s": _rule(
        1, 7 * DAY_S, "Time limit for the part of a script after its training loop, such as an evaluation."
    ),
    "leave_s": _rule(0.1, HOUR_S, "Time limit for the exit of a worker that left its job."),
    "step_end_s": _rule(
        0, HOUR_S, "Time that SIGTERM is delayed for a step to end, for jobs with elasticity `restart`."
    ),
    "restart_s": _rule(0.1, HOUR_S, "Time from SIGTERM to SIGKILL for jobs with elasticity `restart`."),
    "trial_s": _rule(1, DAY_S, "Time limit of a trial run and of each calibration."),
    "idle_share": _rule(0, 1, "A device that computes for less than this share of the time is idle."),
    "idle_s": _rule(
        1, 30 * DAY_S, "The owner of a job is warned of devices that it holds and that were idle this long."
    ),
    "audit_share": _rule(0, 1, "Share of a job's device time in which steps may be verified."),
    "checkpoint_interval_s": _rule(
        0,
        DAY_S,
        "Time between two checkpoints of a running job that names none, at least 1; 0: it is chosen for "
        "each gang by what a checkpoint takes and how often training is lost.",
    ),
    "keep_checkpoints": _rule(1, 1000, "Number of checkpoints kept for each job, the newest."),
    "heartbeat_s": _rule(0.05, 60, "Time between two heartbeats of a worker."),
    "log_bytes": _rule(1 << 20, MOST_BYTES, "Bytes kept of the output of a job that has no `log_limit`."),
    "lease_s": _rule(
        5,
        HOUR_S,
        "Time for which a host that has joined runs workers without an answer of the head. Shorter: a "
        "break of the line ends training there sooner, below 15 also one that is mended at once. Longer: "
        "jobs of a host that died wait longer until they go on elsewhere.",
    ),
    "lease_margin_s": _rule(
        2,
        HOUR_S,
        "Time after the end of a lease until the head gives the host's devices away. Shorter: a process "
        "that the kernel ends slowly may still be on a device that another job has.",
    ),
    # ---- submissions: counts from the next `swell up` on
    "code_file_mib": _rule(0, 1e6, "Largest file not tracked by git that is copied with a job's code."),
    "code_total_mib": _rule(0, 1e6, "Largest total size of the copy of a job's code."),
    "code_num_files": _rule(1, 10**7, "Largest number of files in the copy of a job's code."),
    "user_requests_per_min": _rule(1, 10**9, "Requests that a user may make in a minute."),
    "user_transfer_mib_per_h": _rule(
        1, 1e9, "MiB of code and files that a user may upload and download in an hour."
    ),
    "session_devices": _rule(
        0, 1 << 30, "Devices that the open sessions of one user may have together; 0: half of the platform's."
    ),
    "longest_time_s": _rule(0, 36500 * DAY_S, "Longest `time` that a fixed job may ask for; 0: no limit."),
}
DEFAULTS: dict[str, Number] = {
    "estimate_quantile": KEPT_SHARE,
    "longest_time_s": 0.0,
    "session_devices": 0,
    "lease_s": _LEASES.lease_s,
    "lease_margin_s": _LEASES.margin_s,
    **{name: value for part in _PARTS for name, value in asdict(part).items() if name in RULES},
}


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All of them. Raises InvalidSettings if two do not fit together."""

    given: Mapping[str, Number] = {}  #: others are as by default
    parameters: Mapping[str, float | str] = {}  #: of policies, as `tiresias.promote_knob`, likewise

    def __getitem__(self, name: str) -> Any:
        return self.given.get(name, DEFAULTS[name])

    def __post_init__(self) -> None:
        silence_s, heartbeat_s = self["silence_s"], self["heartbeat_s"]
        if silence_s < HEARTBEATS_IN_SILENCE * heartbeat_s:
            raise InvalidSettings(
                f"silence_s={spell(silence_s)} is too short for heartbeat_s={spell(heartbeat_s)}; it must be "
                f"at least {HEARTBEATS_IN_SILENCE} times as long"
            )
        if 0 < (interval_s := self["checkpoint_interval_s"]) < 1:
            raise InvalidSettings(
                f"checkpoint_interval_s={spell(interval_s)} is too short; "
                "it must be 0, which lets Swell choose, or at least 1"
            )

    @property
    def core(self) -> CoreSettings:
        return CoreSettings(**self._of(CoreSettings) | {"unheard_s": self.leases.wait_s})

    @property
    def gang_settings(self) -> GangSettings:
        return GangSettings(**self._of(GangSettings))

    @property
    def leases(self) -> LeaseTimes:
        return LeaseTimes(lease_s=self["lease_s"], margin_s=self["lease_margin_s"])

    @property
    def retention(self) -> HistoryLimits:
        return HistoryLimits(**self._of(HistoryLimits))

    @property
    def code(self) -> CodeLimits:
        return CodeLimits(**self._of(CodeLimits))

    @property
    def user_rates(self) -> RateLimits:
        return RateLimits(**self._of(RateLimits))

    def _of(self, kind: Any) -> dict[str, Any]:
        return {field.name: self[field.name] for field in fields(kind) if field.name in RULES}

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
        changed = {name: self[name] for name in RULES if self[name] != DEFAULTS[name]}
        return {**changed, **self.parameters}


def parse_setting(text: str) -> tuple[str, Number | str]:
    """`ready_s=300`, or a parameter of a policy: `tiresias.promote_knob=4`. Raises InvalidSettings."""
    name, sign, value = text.partition("=")
    if not sign:
        raise InvalidSettings(f"{text!r} is not NAME=VALUE; write for example ready_s=300")
    name = name.strip()
    if _is_text(name):
        _check_parameter(name, value)
        return name, value
    if not _is_parameter(name):
        _check_name(name)
    is_whole = isinstance(DEFAULTS.get(name), int)
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
    given: dict[str, Number] = {}
    parameters: dict[str, float | str] = {}
    for name, value in values.items():
        if isinstance(value, str):
            parameters[name] = value
        elif _is_parameter(name):
            parameters[name] = float(value)
        else:
            given[name] = value
    return Settings(given=given, parameters=parameters)


def _is_parameter(name: str) -> bool:
    return "." in name


def spell(value: Number | str) -> str:
    """The shortest text that is read as the same number; a text as it is."""
    if isinstance(value, str):
        return value
    return str(int(value)) if value == int(value) else repr(value)


def _check_name(name: str) -> None:
    if name not in RULES:
        others = f"choose from {', '.join(RULES)}, and parameters of policies such as tiresias.promote_knob"
        raise InvalidSettings(f"there is no setting {name!r}; {did_you_mean(name, [*RULES]) or others}")


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
    meta = RULES[name]
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
