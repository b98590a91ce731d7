"""What became of jobs and turns, as spans for an OpenTelemetry collector."""
