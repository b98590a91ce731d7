"""What the page of the runs on reclaimed machines says."""

from __future__ import annotations

INTRODUCTION = """
[BFTrainer](bftrainer.md) trains on nodes that their owner takes back at any second. Its evaluation replays a
log. Here the nodes are taken back for real. Each of six machines is made of namespaces of its own (network,
processes, mounts, IPC, time), and has one paced device, which takes 64 samples a second. A platform without
devices of its own runs on a seventh machine. While a node of the log is idle, `swell node --borrowed` runs on
its machine. When its owner wants it back, a process that is not of the platform sends SIGKILL to process 1 of
the machine, and tells no other process. The kernel ends all other processes of the machine with it. The next
time that the node is idle the machine starts again, with empty folders.

The jobs are real PyTorch trainings under the policy `bftrainer_corrected`, and go on through all this. The
simulation gets the same intervals, the same jobs, and the speeds that trial runs have measured. Starts,
pauses, ends, joins, and the time until a loss is noticed, take as long in it as they did in the live run on
average.

The workload is one of some hundred drawn at random: one whose outcome hangs little on chance, by simulation.
With most of the others a percent of noise in speeds decides which of two equal jobs a node goes to, and so
moves completion times by 5 to 50 %. What noise alone does to this one stands below.
"""
