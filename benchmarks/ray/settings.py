"""How both sides are set: the rival's quickest settings that work, and checkpoints about as often."""

from __future__ import annotations

#: Of Ray Train: seconds between two looks at what nodes there are. By default 60.
MONITOR_S = 2.0
MAX_FAILURES = 20
#: For its driver, which hands them on. By default a start may take 60 s, and workers are looked at every 2 s,
#: for notices of a drain every 5 s.
ENVIRON = {
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "5",
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5",
    "RAY_TRAIN_PREEMPTION_POLL_INTERVAL_S": "0.5",
}
#: All its workers have to report a checkpoint after the same step. A step takes about half a second.
FIRST_CHECKPOINT_STEPS = 8
CHECKPOINT_STEPS = 20
#: Of Swell.
CHECKPOINT_INTERVAL_S = 10.0
#: Before a node ends, in a notice of it.
NOTICE_S = 10.0
