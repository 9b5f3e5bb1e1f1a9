"""Reads providers' answers below litellm: corrects what litellm would misread, and records facts."""
