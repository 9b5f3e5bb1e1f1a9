"""Traces and metrics, as an application with the SDK of OpenTelemetry sees them."""
