"""What a policy that divides cores is told of each job."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from swell.arrays import FloatArray, read_only
from swell.core.record import JobRecord
from swell.model.cluster import Cluster
from swell.model.snapshot import Learning


def learning_of(records: Sequence[JobRecord], cluster: Cluster) -> Learning:
    """Columns of these jobs, in this order."""
    node_of = {device: at for at, node in enumerate(cluster.nodes) for device in node.devices}
    cores = {at: math.nan if node.cores is None else node.cores for at, node in enumerate(cluster.nodes)}
    nodes = [_node(record, node_of) for record in records]
    shares = [record.gang.goal.configuration.share for record in records]
    return Learning(
        node=read_only(np.array(nodes, dtype=np.int64)),
        node_names=tuple(node.name for node in cluster.nodes),
        value=_column([_lowered(record) for record in records]),
        rises=read_only(np.array([record.spec.metric_rises for record in records], dtype=bool)),
        value_s=_column([record.usage.value_s for record in records]),
        cpu_s=_column([record.usage.cpu_s for record in records]),
        share=_column(shares),
        cores=_column([cores.get(node) for node in nodes]),
        num_whole=read_only(np.array([node.num_whole for node in cluster.nodes], dtype=np.int64)),
    )


def _node(record: JobRecord, node_of: Mapping[str, int]) -> int:
    nodes = {node_of.get(device, -1) for device in record.gang.goal.devices}
    return nodes.pop() if len(nodes) == 1 else -1


def _lowered(record: JobRecord) -> float | None:
    """Latest value of the job's metric, negated if learning raises it; None if there is none."""
    value = record.usage.value
    return -value if value is not None and record.spec.metric_rises else value


def _column(values: Sequence[float | None]) -> FloatArray:
    return read_only(np.array([math.nan if value is None else value for value in values], dtype=np.float64))
