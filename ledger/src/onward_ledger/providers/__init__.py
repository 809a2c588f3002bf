"""Providers: what performs one kind of effect, and can say what it promises."""

from onward_ledger.objects import Objects
from onward_ledger.providers.draft import DraftSave
from onward_ledger.providers.interface import Provider
from onward_ledger.providers.publish import ReportPublish


def providers_for(objects: Objects) -> dict[str, Provider]:
    """The providers of this service, by kind."""
    return {provider.kind: provider for provider in (DraftSave(objects), ReportPublish(objects))}


__all__ = ["Provider", "providers_for"]
