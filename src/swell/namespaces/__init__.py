"""Several machines on one, made of namespaces: for tests and for measurements with machines that die."""
