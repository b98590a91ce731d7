"""A worker's line to its agent: messages, heartbeat, lease."""
