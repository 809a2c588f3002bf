"""Guards for effects that run in the caller's own process: recorded before they run, and never run twice on a guess.

    guard = Guard(client, "ticket.create", verify=find_tickets, deadline_seconds=30)

    with guard.action(key, resource="tickets", params={"title": title}, epoch=1) as effect:
        if effect.to_run:
            ticket = api.create(title, marker=effect.action_id)
            effect.done({"ticket": ticket["id"]}, provider_id=ticket["id"])
    effect.receipt        # of this run, or of an earlier one

    @guard.effect
    def create_ticket(title: str) -> Json: ...
    create_ticket(key, "The printer is on fire")        # runs once; later calls get the recorded result

For async code it is `async with` and `await effect.adone(…)`, with either client, and the function is async; `verify`
may be async then.

What the function raises says what became of the effect: NotSent (it did not happen, and may do later), Refused (a
definite no), anything else: nobody knows. `verify` is asked when nobody knows: see `Verify`. Without one, an effect of
which nobody knows is UNKNOWN until a person settles it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from onward_ledger.action import ActionKey
from onward_ledger.canonical import canonical
from onward_ledger.client import AsyncLedgerClient, LedgerClient
from onward_ledger.guard_effect import CannotTell, DeadlinePassed, Effect, NotSent, Refused, Verify, current
from onward_ledger.guard_protocol import Declaration, Seen, Wanted

__all__ = ["CannotTell", "DeadlinePassed", "Effect", "Guard", "NotSent", "Refused", "Seen", "Verify", "current"]

P = ParamSpec("P")
T = TypeVar("T")


class Guard:
    """One kind of effect that runs in this process, and what is declared about it; see `Declaration` for the times.

    `verify` asks the world about an action of which nobody knows whether it happened. `idempotent`: the function gives
    `current().action_id` to the world as its key. `refuses`: exceptions of the function's that are a definite no.
    `epoch` is that of the driver, or a function that returns it.
    """

    def __init__(
        self,
        client: LedgerClient | AsyncLedgerClient,
        kind: str,
        *,
        verify: Verify | None = None,
        deadline_seconds: float = 30.0,
        idempotent: bool = False,
        key_lifetime_seconds: float | None = None,
        resend_after_absent: bool = False,
        request_lifetime_seconds: float = 60.0,
        settle_window_seconds: float = 60.0,
        refuses: tuple[type[Exception], ...] = (),
        epoch: int | Callable[[], int] = 1,
    ) -> None:
        self.kind = kind
        self.declared = Declaration(
            deadline_seconds=deadline_seconds,
            looks_up=verify is not None,
            idempotent=idempotent,
            key_lifetime_seconds=key_lifetime_seconds,
            resend_after_absent=resend_after_absent,
            request_lifetime_seconds=request_lifetime_seconds,
            settle_window_seconds=settle_window_seconds,
        )
        self._client = client
        self._verify = verify
        self._refuses = refuses
        self._epoch = epoch

    def action(self, key: ActionKey, *, resource: str, params: Mapping[str, Any], epoch: int | None = None) -> Effect:
        """One effect: to be entered with `with` (by a LedgerClient) or `async with` (by either client).

        Entering raises ParamsConflict when the key is recorded with another request, UnknownOutcome when it may have
        happened and nobody can tell, InProgress when somebody else performs it for longer than the client is patient.
        """
        canonical(dict(params))  # what is no JSON is refused before anything happens
        if epoch is None:
            epoch = self._epoch() if callable(self._epoch) else self._epoch
        wanted = Wanted(
            key=key, kind=self.kind, resource=resource, params=dict(params), epoch=epoch, declared=self.declared
        )
        return Effect(self._client, wanted, self._verify, self._refuses)

    @overload
    def effect(self, function: Callable[P, T], /) -> Callable[Concatenate[ActionKey, P], T]: ...
    @overload
    def effect(
        self, /, *, resource: str | Callable[P, str]
    ) -> Callable[[Callable[P, T]], Callable[Concatenate[ActionKey, P], T]]: ...
    def effect(self, function: Any = None, /, *, resource: str | Callable[..., str] = "") -> Any:
        """Decorate a function, sync or async, that returns a JSON value: its ActionKey becomes its first argument.

        Its arguments are the params, its value is the receipt's `result`. `resource` is a text, or made from the
        arguments; without one it is the function's name.
        """
        if function is None:
            return functools.partial(self._guarded, resource=resource)
        return self._guarded(function, resource=resource or str(function.__name__))

    def _guarded(self, function: Callable[..., Any], *, resource: str | Callable[..., str]) -> Callable[..., Any]:
        signature = inspect.signature(function)

        def effect_of(key: ActionKey, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Effect:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            named = resource(*args, **kwargs) if callable(resource) else resource
            return self.action(key, resource=named, params=bound.arguments)

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def acall(key: ActionKey, /, *args: Any, **kwargs: Any) -> Any:
                async with effect_of(key, args, kwargs) as effect:
                    if effect.to_run:
                        with effect.running():
                            result = await function(*args, **kwargs)
                        await effect.adone({"result": result})
                return effect.result

            return acall

        @functools.wraps(function)
        def call(key: ActionKey, /, *args: Any, **kwargs: Any) -> Any:
            with effect_of(key, args, kwargs) as effect:
                if effect.to_run:
                    with effect.running():
                        result = function(*args, **kwargs)
                    effect.done({"result": result})
            return effect.result

        return call
