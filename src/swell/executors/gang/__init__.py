"""The gang protocol: which worker hears what, so that a group becomes what the scheduler wants. No I/O."""
