"""Knows nothing of swell.train, and reports. Arguments: how many optimizer steps; how many reports."""

import multiprocessing
import os
import sys

import torch

import swell

num_steps, num_reports = map(int, sys.argv[1:])
assert os.environ["RANK"], "it knows which worker it is"
weight = torch.nn.Parameter(torch.ones(3))
optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range(num_steps):
    weight.grad = torch.ones(3)
    optimizer.step()
for number in range(num_reports):
    swell.report(loss=torch.tensor(number / 2))
swell.report(accuracy=float("nan"))
child = multiprocessing.get_context("fork").Process(target=swell.report, kwargs={"forked": 1.0})
child.start()
child.join()
swell.report(loss=0.25)
