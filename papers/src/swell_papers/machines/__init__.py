"""Several machines on one, made of namespaces: for measurements with machines that die."""
