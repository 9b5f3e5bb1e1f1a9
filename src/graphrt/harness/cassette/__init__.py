"""Cassettes: replies of models and harnesses, recorded once in a file and replayed in every test."""

from graphrt.harness.cassette._cassette import Cassette, CassetteMode, RecordedHarness, RecordedModel

__all__ = ["Cassette", "CassetteMode", "RecordedHarness", "RecordedModel"]
