"""The base of what stands in a configuration file."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Closed(BaseModel):
    """Settings of which every member is known: a misspelt one is an error. Factories may build theirs on it."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)
