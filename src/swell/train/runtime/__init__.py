"""The worker's process: how a script is run, and its connection to the agent."""
