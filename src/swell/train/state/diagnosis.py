"""Descriptions of how the replicas of workers differ, on which ranks, and what the likely cause is."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from swell.train.state.replica import Hyperparameters, Plain, Replica, differing

LEARNING_RATE = "lr"

_OF_HYPERPARAMETERS = (
    "A scheduler is stepped by hand or with a worker's own number, or the value is set from a counter of "
    "the script's own, which begins at 0 in a new worker. Give the scheduler to elastic(scheduler=...), "
    "which steps it, and take your scheduler.step() out; give ReduceLROnPlateau to "
    "elastic(state={'plateau': ...}) and step it with what run.step() returns, the mean of all workers; "
    "compute a value of your own from run.steps"
)
_OF_TENSORS = (
    "A second optimizer, or an update outside run.step(), uses a worker's own gradients or its own state. "
    "Put all parameters into elastic()'s optimizer, as parameter groups; or step the second optimizer after "
    "run.step(), if run.has_stepped, and give it to elastic(state={'second': ...})"
)


class ReplicaReport(msgspec.Struct, frozen=True):
    """What a worker tells of its replica."""

    hyperparameters: Hyperparameters
    checksum: int | None = None  #: of the tensors that were compared; None if none were
    checksums: dict[str, int] = {}  #: of each tensor by its name


def has_same_hyperparameters(reports: Sequence[ReplicaReport]) -> bool:
    return not _differences(reports)


def describe_hyperparameters(reports: Sequence[ReplicaReport], replica: Replica) -> str:
    """What differs where `has_same_hyperparameters` is False."""
    if _num_groups(reports) > 1:
        counts = _by_value([len(report.hyperparameters) for report in reports])
        return (
            f"the number of parameter groups differs: {counts}; add a group on all workers, before elastic()"
        )
    differences = _differences(reports)
    group, key = min(differences, key=lambda each: (each[1] != LEARNING_RATE, each))
    name = "the learning rate" if key == LEARNING_RATE else key
    values = _by_value([report.hyperparameters[group].get(key) for report in reports])
    others = f", and {len(differences) - 1} more hyperparameters" if differences[1:] else ""
    named = _listed(replica.members_of(group))
    return f"{name} of parameter group {group} ({named}) differs{others}: {values}. {_OF_HYPERPARAMETERS}"


def describe_tensors(reports: Sequence[ReplicaReport], replica: Replica) -> str:
    """What differs where the hyperparameters are the same."""
    names = [
        name for name in reports[0].checksums if len({report.checksums.get(name) for report in reports}) > 1
    ]
    ranks = [rank for rank, report in enumerate(reports) if report.checksums != reports[0].checksums]
    parameters = [name for name in names if replica.is_parameter(name)]
    where = f"on {_ranks(ranks)} differ from rank 0's, with the same hyperparameters"
    if not parameters:
        named = f" ({_listed(names)})" if names else ""
        return f"the optimizer's numbers{named} {where}. {_OF_TENSORS}"
    strange = [name for name in parameters if replica.group_of(name) is None]
    if strange:
        what = f"{_listed(strange)}, in no parameter group of elastic()'s optimizer"
    else:
        groups = sorted({number for name in parameters if (number := replica.group_of(name)) is not None})
        what = f"{_listed(parameters)}, of parameter group {', '.join(map(str, groups))}"
    return f"the parameters ({what}) {where}. {_OF_TENSORS}"


def has_same_groups(reports: Sequence[ReplicaReport]) -> bool:
    """Whether one worker's hyperparameters fit the others' optimizers."""
    return _num_groups(reports) == 1


def _num_groups(reports: Sequence[ReplicaReport]) -> int:
    """Different numbers of parameter groups."""
    return len({len(report.hyperparameters) for report in reports})


def _differences(reports: Sequence[ReplicaReport]) -> list[tuple[int, str]]:
    """Parameter groups and hyperparameters that not all have the same."""
    if _num_groups(reports) > 1:
        return [(-1, "")]
    found = {
        (group, key)
        for report in reports[1:]
        for group, (own, other) in enumerate(
            zip(reports[0].hyperparameters, report.hyperparameters, strict=True)
        )
        for key in differing(own, other)
    }
    return sorted(found)


def _by_value(values: Sequence[Plain]) -> str:
    """The values with the ranks that have them, such as `0.1 on rank 0, 0.01 on ranks 1 and 2`."""
    ranks: dict[str, list[int]] = {}
    for rank, value in enumerate(values):
        ranks.setdefault(repr(value), []).append(rank)
    return ", ".join(f"{value} on {_ranks(having)}" for value, having in ranks.items())


def _ranks(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}" if ranks else "no rank"


def _listed(names: Sequence[str]) -> str:
    return f"{names[0]} and {len(names) - 1} more" if names[1:] else names[0]
