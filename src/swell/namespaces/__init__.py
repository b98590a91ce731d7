"""Several machines on one, made of namespaces: for tests and measurements with machines that die."""
