"""Traces and metrics, from the point of view of an application with the OpenTelemetry SDK."""
