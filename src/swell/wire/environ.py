"""Names of environment variables: torchrun's for the group, ours for the link to the agent.

A worker that an agent started finds `AGENT`, `TOKEN` and `WORKER`. Without them a script runs alone
or, when `RANK` and `WORLD_SIZE` are there, as torchrun's.
"""

from __future__ import annotations

import signal

AGENT = "SWELL_AGENT"  #: host:port of the agent on this machine
TOKEN = "SWELL_TOKEN"  #: opens this worker's job, nothing else
JOB_ID = "SWELL_JOB_ID"
TRACKER_RUN = "SWELL_RUN_ID"  #: id of the job, or of the first one where jobs retry or continue others
WORKER = "SWELL_WORKER"  #: this worker's number, unique within its job, never used twice
OBSERVER = "SWELL_OBSERVER"  #: as AGENT, for a script that knows nothing of Swell: who hears of its steps
ADDRESS = "SWELL_ADDRESS"  #: at which workers on other hosts reach those of this one
DEVICES = "SWELL_DEVICES"  #: ids of the devices that this worker sees, with commas between them
HOSTS = "SWELL_HOSTS"  #: of a fixed job: addresses of the hosts of its parts, by rank, likewise
POSITION = "SWELL_POSITION"  #: of this process among those of its worker, where that has several
PROCESSES = "SWELL_PROCESSES"  #: of this worker, where it has several
MARK = "SWELL_PROCESS"  #: by it a worker's processes are found when it is gone (`processes.strays`)
STEPS = "SWELL_STEPS"  #: with how many a job was submitted whose script knows nothing of Swell
LOCAL_BATCH = "SWELL_LOCAL_BATCH"  #: what `{local_batch}` stands for in the arguments of the script

SESSION = "SWELL_SESSION"  #: JSON: what the process of a session is told (`local.terminal`)
TRIAL = "SWELL_TRIAL"  #: 1 in a trial run, whose current folder is a mirror of the job's
WORKDIR = "SWELL_WORKDIR"  #: the job's working directory itself
MIRROR = "SWELL_MIRROR"  #: folder below which a trial run has its working directory
CODE = "SWELL_CODE"  #: a folder with the snapshot of the job's code: a file is below it at its own path
LINKED = "SWELL_LINKED"  #: JSON: folders of it beside whose files the worker itself links the others
AWAY = "SWELL_AWAY"  #: name of a host that has joined: it may lack files that the submitter's machine has
LEASE = "SWELL_LEASE"  #: file of such a host that says until when its workers may train (`lease_end`)

OUTPUT = "SWELL_OUTPUT"  #: in a container: a folder that the job may write to, and that is kept

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
#: then, and no worker in a moment of its own. Before it has made a step the signal ends it. A program that
#: takes the script's place, and one that is not told of it yet, ignores this signal by default.
STOP_AT_STEP = signal.SIGURG

#: Exit status of a process that was told to stop and did (128 + SIGTERM).
EXIT_STOPPED = 143
#: That of a session that ends for being idle (128 + SIGSTKFLT, which nothing sends).
EXIT_IDLE = 144

#: Has CUDA count GPUs as NVML, Slurm and Ray do. By default it counts the fastest first.
GPU_ORDER = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}

#: What a job may not set: it says which worker of which gang this is, and what is its own.
RESERVED_PREFIXES = ("SWELL_", "TORCHELASTIC_")
RESERVED = frozenset(
    {
        RANK,
        WORLD_SIZE,
        LOCAL_RANK,
        LOCAL_WORLD_SIZE,
        GROUP_RANK,
        MASTER_ADDR,
        MASTER_PORT,
        "CUDA_VISIBLE_DEVICES",
    }
)
#: Read when an interpreter starts or imports torch, which is before a worker becomes a job's.
READ_AT_START = frozenset(
    {
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "MKL_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "PYTHONHASHSEED",
        "PYTHONHOME",
    }
)
