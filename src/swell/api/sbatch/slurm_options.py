"""Options of `sbatch` and `srun`: their forms, and why those that a job does not have are dropped."""

from __future__ import annotations

import getopt
from collections.abc import Sequence

from swell.api.sbatch.errors import InvalidSbatchLine


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Letters of long options; by them `-N 2`, `-N2` and `--nodes=2` are one.
_BOTH = {
    "A": "account", "b": "begin", "D": "chdir", "M": "clusters", "C": "constraint", "S": "core-spec",
    "c": "cpus-per-task", "d": "dependency", "m": "distribution", "e": "error", "x": "exclude",
    "B": "extra-node-info", "G": "gpus", "h": "help", "H": "hold", "i": "input", "J": "job-name",
    "k": "no-kill", "L": "licenses", "F": "nodefile", "w": "nodelist", "N": "nodes", "n": "ntasks",
    "o": "output", "O": "overcommit", "s": "oversubscribe", "p": "partition", "q": "qos", "Q": "quiet",
    "t": "time", "v": "verbose", "V": "version",
}  # fmt: skip
_LETTERS = {
    "sbatch": _BOTH | {"a": "array", "W": "wait"},
    "srun": _BOTH | {"X": "disable-status", "I": "immediate", "K": "kill-on-bad-exit", "l": "label",
                     "Z": "no-allocate", "E": "preserve-env", "r": "relative", "T": "threads",
                     "u": "unbuffered", "W": "wait"},
}  # fmt: skip
_FLAGS = _names(
    "contiguous disable-status exact external-launcher help hold ignore-pbs label multi-prog no-allocate "
    "no-requeue overcommit overlap oversubscribe parsable preserve-env pty quiet quit-on-interrupt reboot "
    "requeue spread-job stepmgr test-only unbuffered usage use-min-nodes verbose version"
)
_OPTIONAL = _names(
    "bcast compress exclusive get-user-env immediate kill-on-bad-exit nice no-kill oom-kill-step propagate "
    "resv-ports send-libs x11"
)

PLACED = "Swell chooses where a job runs; --kind NAME asks for a kind of device that `swell nodes` lists"
OWNED = "who may use which devices is a matter of the platform: its tenants, quotas and priorities"
TOLD = "`swell logs JOB` has the output of all workers"
UNBOUND = "Swell binds no worker to cores; devices are given by the platform"
NOT_RUN = "Swell has nothing like it"
#: Options that become a part of the job, some of them only of its size.
UNDERSTOOD = _names(
    "job-name chdir time nodes ntasks ntasks-per-node ntasks-per-gpu gpus gpus-per-node gpus-per-task gres "
    "tres-per-task export cpus-per-task"
)
#: Options without which it would be another job, and what to do.
REFUSED = {
    "array": "an array is many jobs, and Swell submits one; write a job file with a `sweep` over what the "
    "index chooses, and remove the option",
    "dependency": "it names jobs of Slurm; remove it, and give --after JOB with a job of Swell",
    "gpus-per-socket": "the sockets of a node are not known; write --gpus-per-node",
    "het-group": "a heterogeneous job is several jobs in one; submit the part that trains alone",
    "multi-prog": "it runs several programs in one step; submit the one that trains alone",
    "wrap": "there is no script then; submit what it runs with `swell submit --script`",
}
_DROPPED_BY_REASON = {
    PLACED: "batch cluster-constraint clusters constraint contiguous core-spec cores-per-socket distribution "
    "exact exclude exclusive extra-node-info gres-flags hint mincpus no-allocate nodefile nodelist "
    "overcommit overlap oversubscribe partition prefer relative segment sockets-per-node "
    "spread-job switches thread-spec threads-per-core ntasks-per-core ntasks-per-socket use-min-nodes",
    OWNED: "account licenses mcs-label nice priority qos reservation wckey",
    TOLD: "error label open-mode output unbuffered verbose quiet parsable",
    UNBOUND: "accel-bind cpu-bind cpu-freq cpus-per-gpu gpu-bind gpu-freq mem-bind threads tres-bind",
    "it limits a node of Slurm's job, and Swell may place other numbers of workers on a node; --memory SIZE "
    "limits all workers on a node together": "mem mem-per-cpu mem-per-gpu",
    "`--webhook URL` tells an address when the job ends": "mail-type mail-user",
    "Swell starts a job again by itself, from its last checkpoint": "requeue no-requeue kill-on-bad-exit "
    "no-kill oom-kill-step",
    "a worker that has to stop gets SIGTERM after a step, whether or not it is asked for": "signal",
    "a container is given by --image NAME (Docker or Podman)": "container container-env container-id "
    "container-image container-mount-home container-mounts container-name container-remap-root "
    "container-save container-workdir container-writable",
    "a job starts as soon as it may; `swell hold JOB` keeps it waiting": "begin hold delay-boot immediate",
    "it is the shortest limit that the owner would take, and Swell has none": "time-min",
    "a deadline of Swell is given by --deadline TIME, and the job is promised or refused": "deadline",
    "a job does not read input": "input pty",
}  # fmt: skip
_WITHOUT_REASON = (
    "acctg-freq bb bbf bcast bcast-exclude comment compress consolidate-segments disable-status epilog "
    "export-file extra external-launcher get-user-env gid help ignore-pbs jobid kill-on-invalid-dep mpi "
    "msg-timeout network power preserve-env profile prolog propagate quit-on-interrupt reboot resv-ports "
    "send-libs slurmd-debug stepmgr task-epilog task-prolog test-only tmp uid usage version wait "
    "wait-all-nodes x11"
)
#: Option -> why it is dropped.
DROPPED = {
    name: reason
    for reason, names in (*_DROPPED_BY_REASON.items(), (NOT_RUN, _WITHOUT_REASON))
    for name in names.split()
}
_LONG = UNDERSTOOD | REFUSED.keys() | DROPPED.keys()


def slurm_options(program: str, words: Sequence[str], line: int) -> tuple[list[tuple[str, str]], list[str]]:
    """The options of `sbatch` or `srun` by their long names, in their order, and the words behind them.

    Raises:
        InvalidSbatchLine: there is no such option, or its value is missing.
    """
    letters = _LETTERS[program]
    flags = _FLAGS | {"wait"} if program == "sbatch" else _FLAGS
    short = "".join(letter + ("" if letters[letter] in flags | _OPTIONAL else ":") for letter in letters)
    long = sorted(name + ("" if name in flags else "=") for name in _LONG)
    try:
        found, rest = getopt.getopt([_with_value(word) for word in words], short, long)
    except getopt.GetoptError as error:
        raise InvalidSbatchLine(
            line, f"{program}: {error}; correct it, or remove it if only another version of Slurm has it"
        ) from None
    behind = list(words[len(words) - len(rest) :])
    return [(_long_name(name, letters), value) for name, value in found], behind


def _with_value(word: str) -> str:
    """`--exclusive` as `--exclusive=`: a value of such options can only stand behind the sign."""
    return f"{word}=" if word.removeprefix("--") in _OPTIONAL and word.startswith("--") else word


def _long_name(name: str, letters: dict[str, str]) -> str:
    return name[2:] if name.startswith("--") else letters[name[1:]]
