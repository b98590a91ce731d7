"""Webhooks: what is news of a job, and how it is delivered."""
