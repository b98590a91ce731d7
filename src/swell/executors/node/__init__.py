"""The host process of a machine that joins a platform: workers, as long as it has a lease."""
