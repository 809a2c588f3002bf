"""One effect inside its guard: what its block does when it begins, when it says what happened, and when it ends."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from types import TracebackType
from typing import Any, TypeVar, cast

from onward_ledger import guard_protocol
from onward_ledger.action import Action, Json, Status
from onward_ledger.canonical import canonical
from onward_ledger.client import AsyncLedgerClient, LedgerClient
from onward_ledger.errors import BadRequest, Conflict, LedgerError
from onward_ledger.guard_protocol import Ask, Asking, Entered, Seen, Wanted, World
from onward_ledger.protocol import Answer, Lost, Request, Wait

log = logging.getLogger("onward_ledger")

T = TypeVar("T")

# As much of an exception's text is recorded as reason.
MOST_WORDS = 4000

# What the service keeps of a receipt. A larger one is not cut in silence.
LARGEST_RECEIPT_BYTES = 64 * 1024
UNSTORABLE = "unstorable"

# Asks the world about an action, by its id (`action.action_id`, given to the world as marker or key) or by its params:
# None or [] (there is no trace), a list (an item per effect that is there), or what the one effect gave: a Seen, or
# what the function would have returned. May raise CannotTell; what else it raises counts as that.
Verify = Callable[[Action], Any]


class NotSent(Exception):
    """To be raised where the effect definitely did not happen, and may do later."""


class DeadlinePassed(NotSent):
    """The time for this claim was over before the function ran: nothing happened."""


class Refused(Exception):
    """To be raised where the world says a definite no. Raised again, from the record, whenever it is asked for."""


class CannotTell(Exception):
    """To be raised by `verify` when the world cannot be asked, or says neither yes nor no."""


_current: ContextVar[Effect | None] = ContextVar("onward_ledger_effect", default=None)


def current() -> Effect:
    """The effect that this code performs: for a guarded function that gives its `action_id` to the world."""
    effect = _current.get()
    if effect is None:
        raise BadRequest("No guarded effect is being performed here.")
    return effect


class Effect:
    """One effect inside its guard, made by `Guard.action`; `with` or `async with`.

    `to_run`: it is claimed for this block, which performs it and says `done`. Else it is settled: see `receipt`.
    """

    def __init__(
        self,
        client: LedgerClient | AsyncLedgerClient,
        wanted: Wanted,
        verify: Verify | None,
        refuses: tuple[type[Exception], ...] = (),
    ) -> None:
        self.wanted = wanted
        self.to_run = False
        self._client = client
        self._verify = verify
        self._refuses = refuses
        self._entered: Entered | None = None
        self._told = False

    @property
    def action_id(self) -> str:
        """The id of the action: the idempotency key, or the marker, to give to the world."""
        return self.wanted.key.action_id

    @property
    def action(self) -> Action:
        """The record, as this process knows it."""
        assert self._entered is not None, "the action is known inside and behind its `with`"
        return self._entered.action

    @property
    def receipt(self) -> Json:
        """The recorded receipt. Refused when the record says that it failed; BadRequest when it was too large."""
        action = self.action
        match action.status:
            case Status.SUCCEEDED:
                return _whole(action)
            case Status.FAILED:
                raise Refused(action.reason or "It failed.")
            case _:
                raise Conflict(f"Action {action.action_id} is {action.status}: {action.reason}", action=action)

    @property
    def result(self) -> Any:
        """The recorded result of a guarded function; the whole receipt where it has none, as a person may write it."""
        receipt = self.receipt
        return receipt.get("result", receipt)

    @contextmanager
    def running(self) -> Generator[None]:
        """Around the function itself: the last check of the deadline, and `current()` is this effect."""
        self.check()
        before = _current.set(self)
        try:
            yield
        finally:
            _current.reset(before)

    def is_running(self) -> bool:
        """Whether this very code is what performs it."""
        return _current.get() is self

    @property
    def remaining(self) -> float:
        """Seconds until the deadline; negative behind it."""
        assert self._entered is not None
        return self._entered.ends - time.monotonic()

    def check(self) -> None:
        """Raise DeadlinePassed behind the deadline. Call it as the last thing before the world is changed.

        A process that was stopped behind its claim finds out here that others may have taken over.
        """
        if self.remaining <= 0:
            seconds = self.wanted.declared.deadline_seconds
            raise DeadlinePassed(f"The effect did not begin within its {seconds:g} seconds.")

    # Operations: what a block does when it begins, when it says what happened, and when it ends.

    def _enter(self) -> Asking[None]:
        entered = yield from guard_protocol.enter(self.wanted, patience_seconds=self._client.patience_seconds)
        self._entered, self.to_run = entered, entered.to_run
        try:
            if self.to_run:
                self.check()
        except DeadlinePassed as error:
            yield from self._leave(error)
            raise

    def _done(self, receipt: Mapping[str, Any], provider_id: str | None) -> Asking[Json]:
        assert self.to_run and not self._told, "only what is to run is done, and only once"
        token = self.action.claim_token
        assert token is not None
        yield from self._tell(guard_protocol.applied(provider_id, _storable(receipt), token))
        return self.receipt

    def _leave(self, error: BaseException | None) -> Asking[None]:
        if not self.to_run or self._told:
            return
        with suppress(LedgerError):  # its deadline makes it UNKNOWN then; what the block raised is what matters
            yield from self._tell(self._outcome(error))
        if error is None:
            where = f"{self.wanted.key.step}/{self.wanted.key.slot}"
            raise BadRequest(f"The block of {where} ended without done(): whether it happened is UNKNOWN.")

    def _tell(self, outcome: Json) -> Asking[None]:
        assert self._entered is not None and self.action.claim_token is not None
        self._told = True
        action = yield from guard_protocol.complete(self.action_id, self.action.claim_token, outcome)
        self._entered = replace(self._entered, action=action)

    def _outcome(self, error: BaseException | None) -> Json:
        """What an end of the block by this error means."""
        if error is None:
            return guard_protocol.lost("The block ended without saying what happened.")
        if isinstance(error, NotSent):
            return guard_protocol.not_sent(_said(error))
        if isinstance(error, (Refused, *self._refuses)):
            return guard_protocol.refused(_said(error))
        return guard_protocol.lost(f"{type(error).__name__}: {_said(error)}")

    # With a LedgerClient.

    def __enter__(self) -> Effect:
        self._run(self._enter())
        return self

    def done(self, receipt: Mapping[str, Any], *, provider_id: str | None = None) -> Json:
        """It happened: record it now. The receipt as it is recorded, which is what later calls get."""
        return self._run(self._done(receipt, provider_id))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._leave(error))

    def _run(self, operation: Asking[T]) -> T:
        if not isinstance(self._client, LedgerClient):
            raise BadRequest("With an AsyncLedgerClient it is: async with guard.action(…), and await effect.adone(…).")
        reply: Any = None
        while True:
            try:
                step = operation.send(reply)
            except StopIteration as end:
                return end.value
            reply = self._look(step.action) if isinstance(step, Ask) else self._client.step(step)

    def _look(self, action: Action) -> World:
        try:
            assert self._verify is not None
            return _world(_given(self._verify(action)))
        except Exception as error:
            return _silent(action, error)

    # With either client.

    async def __aenter__(self) -> Effect:
        await self._arun(self._enter())
        return self

    async def adone(self, receipt: Mapping[str, Any], *, provider_id: str | None = None) -> Json:
        """See `done`."""
        return await self._arun(self._done(receipt, provider_id))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._arun(self._leave(error))

    async def _arun(self, operation: Asking[T]) -> T:
        reply: Any = None
        while True:
            try:
                step = operation.send(reply)
            except StopIteration as end:
                return end.value
            reply = await self._alook(step.action) if isinstance(step, Ask) else await self._astep(step)

    async def _astep(self, step: Request | Wait) -> Answer | Lost | None:
        if isinstance(self._client, AsyncLedgerClient):
            return await self._client.step(step)
        return await asyncio.to_thread(self._client.step, step)

    async def _alook(self, action: Action) -> World:
        try:
            assert self._verify is not None
            answer = self._verify(action)
            return _world(await answer if inspect.isawaitable(answer) else answer)
        except Exception as error:
            return _silent(action, error)


def _given(answer: Any) -> Any:
    """The answer of a `verify` that is not async."""
    if inspect.iscoroutine(answer):
        answer.close()
        raise BadRequest("verify is async, so the guard has to be: async with, or an async function.")
    return answer


def _world(answer: Any) -> World:
    """What a `verify` said. A list has an item for each effect that is there.

    What could be meant either way (False, an empty text) is not taken for an answer: one meaning would lose the effect.
    """
    if answer is None:
        return World()
    items = cast(list[Any], list(answer) if isinstance(answer, list | tuple) else [answer])
    return World(tuple(_seen(item) for item in items))


def _seen(item: Any) -> Seen:
    if isinstance(item, Seen):
        return replace(item, receipt=_storable(item.receipt))
    if isinstance(item, bool) or not item:
        raise BadRequest(
            f"verify returned {item!r}. It returns None where there is no trace, else what is there: what the function "
            "would have returned, or a Seen."
        )
    canonical(item)  # else nobody knows what it stands for
    return Seen(receipt=_storable({"result": item}))


def _silent(action: Action, error: Exception) -> World:
    """A `verify` that raised cannot tell."""
    if isinstance(error, CannotTell):
        return World(why_not=_said(error))
    log.warning("The look-up of action %s failed.", action.action_id, exc_info=error)
    why = _said(error) if isinstance(error, LedgerError) else type(error).__name__
    return World(why_not=f"The look-up failed: {why}"[:MOST_WORDS])


def _said(error: BaseException) -> str:
    return (str(error) or type(error).__name__).replace("\x00", " ")[:MOST_WORDS]


def _storable(receipt: Mapping[str, Any]) -> Json:
    """The receipt, or one that says why it cannot be stored: an effect that happened is recorded in any case."""
    try:
        size = len(canonical(dict(receipt)))
    except BadRequest as error:
        return {UNSTORABLE: f"It is no JSON value: {error.message}"}
    if size > LARGEST_RECEIPT_BYTES:
        return {UNSTORABLE: f"It is larger than {LARGEST_RECEIPT_BYTES // 1024} KiB."}
    return dict(receipt)


def _whole(action: Action) -> Json:
    receipt = action.receipt or {}
    why = receipt.get(UNSTORABLE) or ("It was cut." if "truncated" in receipt else None)
    if why is not None:
        raise BadRequest(
            f"{action.step}/{action.slot} happened and is recorded, but its result cannot be given again: {why} "
            "Let the function return something small, such as an id.",
            action=action,
        )
    return receipt
