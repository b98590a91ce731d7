"""The control API and its Python client: operations, fields of a job, rights of users, Prometheus metrics."""
