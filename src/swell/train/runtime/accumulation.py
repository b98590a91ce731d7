"""Scripts that accumulate gradients over several batches themselves are told what to change, in figures."""

from __future__ import annotations

#: A loop that has not called `run.step` for as many batches is taken never to call it.
MOST_BATCHES = 256

NO_STEP = (
    "a batch went by without run.step(loss); call it once for each batch. A loop that accumulates "
    "gradients over `accum` batches has them in one step: give the loader batch_size=accum * batch_size "
    "and elastic() max_local_batch=batch_size, call run.step(loss) for each batch, and do not divide the "
    "loss by accum"
)

#: What to do instead of `continue`.
_LEAVE_OUT = (
    "To leave samples out, do so where they are read, in the dataset or the collate_fn. A batch counts for "
    "nothing with run.step(torch.zeros(()), weight=0), where each other one has run.step(loss, weight=len(x))"
)
LEFT_OUT = (
    "a batch went by without run.step(loss) and without a gradient, as where `continue` leaves it out; it "
    f"comes again, for each batch is a step of all workers. {_LEAVE_OUT}"
)
AHEAD = (
    "the next batch was asked for before run.step(loss) of this one: batches that are read ahead of their "
    "steps, as by a prefetcher, or left out by `continue`, come again. Loop over run.batches() and call "
    f"run.step(loss) for each batch; num_workers= of the loader reads ahead. {_LEAVE_OUT}"
)


def advice(accum: int, batch: int) -> str:
    """What to change in a script that steps once for `accum` batches of `batch` samples."""
    return (
        f"run.step(loss) was called once for {accum} batches of {batch} samples; it belongs to each batch, "
        "for a batch of the loader is a step. The same training in passes as small as before: give the "
        f"loader batch_size={accum * batch} (a Swell job: `--global-batch {accum * batch}`) and elastic() "
        f"max_local_batch={batch}; call loss.backward() and run.step(loss) for each batch, do not divide "
        f"the loss by {accum}, and take out the counter of batches (the last call of a step updates the "
        "model, for the mean over all its samples)"
    )
