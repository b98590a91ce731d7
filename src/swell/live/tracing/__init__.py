"""Spans of jobs and scheduling cycles, for an OpenTelemetry collector."""
