"""How a worker's process runs its script: under an agent, alone, under torchrun, in a trial run."""
