"""The control API: what can be asked of a running platform over loopback HTTP, and the client for it."""
