"""What Slurm says when it refuses something or does not answer, and what to do then."""

from __future__ import annotations

import re

FEWER = "lower --max-nodes, or choose another"
#: Part of what a program prints, and the remedy. The first that is found counts.
REFUSALS = (
    (
        r"invalid partition|partition .*not found|no partition",
        "`sinfo -s` lists the partitions: choose one with --partition",
    ),
    (
        r"account or account/partition",
        "`sacctmgr show assoc user=$USER` lists your accounts: choose one with --account",
    ),
    (r"invalid qos|qos specification", "`sacctmgr show qos` lists them: choose one with --qos, or none"),
    (
        r"job submit limit|accounting/qos policy|AssocMax|AssocGrp|QOSMax|QOSGrp",
        f"the limits of your association or QOS allow no more: {FEWER} --account or --qos",
    ),
    (r"time limit", "`scontrol show partition` names its MaxTime: lower --time"),
    (
        r"generic resource|\bgres\b",
        "the cluster has no such devices: `sinfo -o '%N %G'` lists them; name others with --slice-devices",
    ),
    (r"feature", "`sinfo -o '%N %f'` lists the features of nodes: choose with --constraint"),
    (r"reservation", "`scontrol show reservation` lists them: choose one with --reservation, or none"),
    (
        r"node configuration|more processors|memory specification|node count specification",
        "no node of the partition is so large: lower --slice-devices, --slice-cpus or --mem",
    ),
    (
        r"partition .*(down|inactive|drain)|unavailable",
        "ask its administrator, or choose another --partition",
    ),
    (
        r"access/permission|permission denied|not permitted",
        "your user or account may not use it: choose another --partition or --account",
    ),
    (r"submission failed|allocation failure", "see what `sbatch --test-only` says with the same options"),
)
#: The same of what prevents any answer.
SILENCES = (
    (r"munge|auth/|authentication", "munge does not work here: `munge -n | unmunge` tells more"),
    (
        r"unable to contact|connection refused|timed out|connect failure|zero bytes|communication"
        r"|unexpected message|transport|configuration source|fetch config",
        "slurmctld does not answer: `scontrol ping` tells when it is back",
    ),
    (r"temporarily|try again|\brpc", "slurmctld is busy, and is asked again"),
)
#: Reasons for which a job waits, where waiting alone may not help.
WAITS = (
    (r"QOS(Max|Grp|Min|Job|Res|Time|Usage)", f"the QOS allows you no more now: {FEWER} --qos"),
    (r"Assoc", f"your association allows you no more now: {FEWER} --account"),
    (r"MaxCpuPerAccount|Max\w+PerAccount", f"your account may have no more now: {FEWER} --account"),
    (r"PartitionTimeLimit", "the partition allows no such time limit: lower --time"),
    (
        r"PartitionDown|PartitionInactive",
        "the partition takes no jobs now: choose another --partition",
    ),
    (
        r"PartitionConfig|PartitionNodeLimit",
        "the partition allows no such slice: lower --time or --slice-cpus, or choose another --partition",
    ),
    (
        r"AccountNotAllowed|account not known|can't use this partition",
        "your account may not use the partition: choose another --account or --partition",
    ),
    (r"InvalidAccount", "there is no such account: `sacctmgr show assoc user=$USER` lists yours"),
    (r"InvalidQOS", "there is no such QOS: choose another --qos"),
    (r"ReqNodeNotAvail|Nodes required", "nodes are down, drained or reserved: `sinfo -R` tells why"),
    (r"Reservation", "the reservation has not begun, or has ended: `scontrol show reservation`"),
    (r"BadConstraints", "no node has these features: choose others with --constraint"),
    (r"JobHeldUser", "it is held: `scontrol release` lets it go on"),
    (r"JobHeldAdmin", "an administrator holds it: ask why"),
    (r"launch failed", "its start failed on a node: `scontrol release` tries again"),
)


def remedy_of_refusal(said: str) -> str:
    """What to do about a refusal; empty: it is none that is known."""
    return _found(REFUSALS, said)


def remedy_of_silence(said: str) -> str:
    """What to do where Slurm does not answer; empty: that is not what the text tells."""
    return _found(SILENCES, said)


def remedy_of_wait(reason: str) -> str:
    """What to do about the reason for which a job waits; empty: wait, for devices will be free."""
    return _found(WAITS, reason)


def shortened(said: str) -> str:
    """The words of a program in one line, without its name and level before each."""
    lines = [re.sub(r"^\s*\w+: (error|fatal): ", "", line).strip() for line in said.splitlines()]
    return "; ".join(dict.fromkeys(line for line in lines if line))[:400]


def _found(table: tuple[tuple[str, str], ...], said: str) -> str:
    return next((remedy for words, remedy in table if re.search(words, said, re.IGNORECASE)), "")
