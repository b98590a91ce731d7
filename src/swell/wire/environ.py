"""Names of environment variables: torchrun's for the group, ours for the link to the agent.

A worker that an agent started finds `AGENT`, `TOKEN` and `WORKER`. Without them a script runs alone
or, when `RANK` and `WORLD_SIZE` are there, as torchrun's.
"""

from __future__ import annotations

import signal

AGENT = "SWELL_AGENT"  #: host:port of the agent on this machine
TOKEN = "SWELL_TOKEN"  #: opens this worker's job, nothing else
JOB_ID = "SWELL_JOB_ID"
WORKER = "SWELL_WORKER"  #: this worker's number, unique within its job, never used twice
OBSERVER = "SWELL_OBSERVER"  #: as AGENT, for a script that knows nothing of Swell: who hears of its steps
MARK = "SWELL_PROCESS"  #: by it a worker's processes are found when it is gone (`process_mark`)
BALLOT = "SWELL_BALLOT"  #: a file in which the workers of such a script agree when to stop

TRIAL = "SWELL_TRIAL"  #: 1 in a trial run, whose current folder is a mirror of the job's
WORKDIR = "SWELL_WORKDIR"  #: in a trial run: the job's working directory itself

RANK = "RANK"
WORLD_SIZE = "WORLD_SIZE"
LOCAL_RANK = "LOCAL_RANK"
LOCAL_WORLD_SIZE = "LOCAL_WORLD_SIZE"
GROUP_RANK = "GROUP_RANK"
MASTER_ADDR = "MASTER_ADDR"
MASTER_PORT = "MASTER_PORT"
RESTART_COUNT = "TORCHELASTIC_RESTART_COUNT"  #: how often the gang of this job has changed
RUN_ID = "TORCHELASTIC_RUN_ID"  #: the job's id

#: Asks a script that knows nothing of Swell to stop when its next optimizer steps have ended: it gets SIGTERM
#: then, and no worker in a moment of its own. Before it has made a step the signal ends it.
STOP_AT_STEP = signal.SIGRTMIN + 7

#: Exit status of a process that was told to stop and did (128 + SIGTERM).
EXIT_STOPPED = 143
