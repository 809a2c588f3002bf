"""Providers: what performs one kind of effect, and can say what it promises."""

from pathlib import Path

from onward_ledger.objects import Objects
from onward_ledger.providers.configured import configure
from onward_ledger.providers.draft import DraftSave
from onward_ledger.providers.interface import Provider
from onward_ledger.providers.note import LedgerNote
from onward_ledger.providers.publish import ReportPublish


def providers_for(objects: Objects, config: Path | None = None) -> dict[str, Provider]:
    """The providers of this service, by kind: the built-in ones, and what a configuration file says."""
    built_in: dict[str, Provider] = {
        provider.kind: provider for provider in (DraftSave(objects), ReportPublish(objects), LedgerNote())
    }
    return built_in if config is None else configure(built_in, config, objects)


__all__ = ["Provider", "providers_for"]
