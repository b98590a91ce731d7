"""Commands of other programs that people type, and ours for what they mean."""

from __future__ import annotations

_LIST = "`swell jobs` lists jobs, `swell show JOB` tells all of one"
_END = "`swell cancel JOB` ends a job"
_SUBMIT = "`swell submit` submits a job"

#: What to write instead of a command that Swell does not have.
OTHER_WORDS = {
    **dict.fromkeys(("ps", "list", "ls", "status", "stat", "queue", "squeue", "qstat"), _LIST),
    **dict.fromkeys(("describe", "info", "inspect", "get"), "`swell show JOB` tells all of a job"),
    **dict.fromkeys(("kill", "abort", "scancel", "qdel", "terminate"), _END),
    **dict.fromkeys(
        ("rm", "remove", "delete", "del", "clean"), f"{_END}, `swell admin prune` removes ended ones"
    ),
    "stop": f"{_END}, `swell hold JOB` has it wait, `swell down` ends the platform",
    **dict.fromkeys(("pause", "suspend"), "`swell hold JOB` has a job wait until `swell resume JOB`"),
    **dict.fromkeys(("unpause", "unhold", "release"), "`swell resume JOB` lets a held job go on"),
    **dict.fromkeys(("run", "create", "add", "launch", "train", "sbatch", "qsub"), _SUBMIT),
    "start": f"`swell up` starts the platform, {_SUBMIT}",
    **dict.fromkeys(("init", "serve"), "`swell up` starts the platform"),
    **dict.fromkeys(("shutdown", "quit", "exit"), "`swell down` ends the platform"),
    "restart": "`swell retry JOB` submits an ended job again, `swell continue JOB` from its last checkpoint",
    **dict.fromkeys(("log", "tail"), "`swell logs JOB -f` follows a job's output"),
    "history": "`swell jobs --all` lists ended jobs too",
    **dict.fromkeys(
        ("top", "watch"), "`watch swell jobs` lists jobs again and again, `swell page` shows them live"
    ),
    "sinfo": "`swell nodes` lists nodes and devices",
    "config": "`swell up --help` has the settings of a platform, `swell submit --help` those of a job",
    "help": "`swell --help` lists the commands, `swell COMMAND --help` the options of one",
    "version": "`swell --version` prints the version",
}
