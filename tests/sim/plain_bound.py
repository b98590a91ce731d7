"""The bound as one linear program, with a variable for each job and stretch of its window."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from swell.arrays import FloatArray


def most_done(begins_s: FloatArray, ends_s: FloatArray, needs: FloatArray, num_devices: int) -> float:
    """Maximise the shares of jobs done, each within its window, with so much as all stretches have."""
    edges_s = np.unique(np.concatenate([begins_s, ends_s]))
    num_jobs, num_stretches = len(needs), len(edges_s) - 1
    is_within = (begins_s[:, None] <= edges_s[:-1]) & (edges_s[1:] <= ends_s[:, None])
    jobs, stretches = np.nonzero(is_within)
    limits = np.zeros((num_jobs + num_stretches, len(jobs)))
    limits[jobs, np.arange(len(jobs))] = 1.0
    limits[num_jobs + stretches, np.arange(len(jobs))] = needs[jobs]
    most = np.concatenate([np.ones(num_jobs), num_devices * np.diff(edges_s)])
    return float(-linprog(-np.ones(len(jobs)), A_ub=limits, b_ub=most, method="highs").fun)
