"""Slurm scripts as jobs (`--from-sbatch`): what of one is understood, and why the rest is dropped."""
