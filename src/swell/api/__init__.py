"""The control API: what can be asked of a running platform over its Unix socket, and the client for it."""
