"""Lines between machines: TLS, join tokens, and a stream of messages that outlives its connections."""
