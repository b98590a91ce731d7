"""The gang protocol: what each worker is told, how long it may be silent or stuck. No I/O."""
