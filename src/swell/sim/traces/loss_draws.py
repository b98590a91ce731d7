"""Loss curves for jobs that tell none: as different as models are, none of them measured."""

from __future__ import annotations

import numpy as np

#: In place of a rule's number: so that what is drawn for losses shifts nothing else.
LOSSES = 1
#: Standard deviation of a reported value, as a share of what there is to learn.
NOISE_SHARE = 0.02
POWER_EXPONENT = 1.0


def drawn_loss(seed: int, index: int, num_steps: int) -> str:
    """The text of a curve for the `index`-th job of a trace, of so many steps; see `loss_text`.

    One half approach their limit exponentially, the other half by a power law. They start anywhere from 0.01
    to 100, so that losses of two jobs cannot be compared; the limit is 5 to 50 % of that. The time constant
    is 2 to 30 % of the job's steps.
    """
    kind, scale, floor, pace = np.random.default_rng([seed, LOSSES, index]).random(4).tolist()
    start = 10.0 ** (4.0 * scale - 2.0)
    limit = start * (0.05 + 0.45 * floor)
    steps = num_steps * 0.02 * 15.0**pace
    shape = f"exp:{start:.4g}:{limit:.4g}:{steps:.4g}"
    if kind < 0.5:
        shape = f"power:{start:.4g}:{limit:.4g}:{steps:.4g}:{POWER_EXPONENT:g}"
    return f"{shape}+noise:{NOISE_SHARE * (start - limit):.3g}"
