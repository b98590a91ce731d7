"""Processes of one machine: agent, zygote, limits of cores and memory, containers, logs.

`link.LocalExecutor` lives in the daemon. It talks to `agent`, a process of its own that outlives a killed
daemon. The agent owns `zygote`, which forks warm workers, and directs every gang: `executors.gang` says what
to do, without doing it.
"""
