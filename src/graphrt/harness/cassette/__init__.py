"""Cassettes: the answers of a model, recorded once and replayed in every test."""

from graphrt.harness.cassette._cassette import Cassette, CassetteMode, RecordedHarness, RecordedModel

__all__ = ["Cassette", "CassetteMode", "RecordedHarness", "RecordedModel"]
