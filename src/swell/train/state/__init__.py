"""The training state: what a checkpoint holds, how joiners get it, how replicas are compared."""
