"""No secret in a log, a receipt or an answer: secrets are masked wherever text leaves the service.

Masked is what was given to `keep_secret` (tokens, passwords, secrets of kinds), and what looks like a credential
whoever sent it: a token of ours, what stands behind `Authorization` or `Bearer`, a password in a URL or a setting.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
import traceback
import urllib.parse
from types import TracebackType
from typing import Any

from onward_ledger.token_file import PREFIX

MASK = "***"

# A shorter word would be masked where it is no secret, and a secret that short is none.
SHORTEST_SECRET = 6

_VALUE = r"""[^\s"',;<>]+"""

# By a word that is in whatever the pattern finds: most texts have none of them, and looking for words costs little.
_PATTERNS = tuple(
    (hint, re.compile(pattern, re.IGNORECASE), replacement)
    for hint, pattern, replacement in (
        (PREFIX, rf"{PREFIX}[A-Za-z0-9_-]{{8,}}", PREFIX + MASK),
        (
            "authorization",
            rf"""(authorization["']?\s*[:=,]\s*(?:b?["'])?(?:(?:bearer|basic|digest|token)\s+)?+){_VALUE}""",
            rf"\g<1>{MASK}",
        ),
        ("bearer", r"(\bbearer\s+)[A-Za-z0-9._~+/=-]{8,}", rf"\g<1>{MASK}"),
        ("://", r"""(://[^/\s:@"']*:)[^/\s@"']+(?=@)""", rf"\g<1>{MASK}"),
        ("password", rf"""(\bpassword["']?\s*[:=]\s*["']?){_VALUE}""", rf"\g<1>{MASK}"),
    )
)

_lock = threading.Lock()
_secrets: tuple[str, ...] = ()  # the longest first, where one is the beginning of another


def keep_secret(secret: str | None) -> None:
    """Mask this from now on, wherever it turns up in this process: as it is, and as URLs and JSON write it."""
    global _secrets
    if secret is None or len(secret.strip()) < SHORTEST_SECRET:
        return
    secret = secret.strip()
    written = {secret, urllib.parse.quote(secret, safe=""), urllib.parse.quote_plus(secret), json.dumps(secret)[1:-1]}
    with _lock:
        _secrets = tuple(sorted(written.union(_secrets), key=len, reverse=True))


def masked(text: str) -> str:
    """The text without secrets."""
    for secret in _secrets:
        if secret in text:
            text = text.replace(secret, MASK)
    lowered = text.lower()
    for hint, pattern, replacement in _PATTERNS:
        if hint in lowered:
            text = pattern.sub(replacement, text)
    return text


def mask_logs() -> None:
    """Mask every log record of this process, whoever writes it and however it is shown; tracebacks too.

    Records are masked when they are made, since a filter of one logger or handler does not see those of others. What
    would go to stderr by itself (an exception that ends a thread or the process) goes through the log as well.
    """
    make = logging.getLogRecordFactory()
    if getattr(make, "masks", False):
        return

    def factory(*args: Any, **options: Any) -> logging.LogRecord:
        return _mask(make(*args, **options))

    factory.masks = True  # pyright: ignore[reportFunctionMemberAccess]  # so that it is never put over itself
    logging.setLogRecordFactory(factory)
    sys.excepthook = _uncaught
    threading.excepthook = _uncaught_in_thread


def _mask(record: logging.LogRecord) -> logging.LogRecord:
    """The message is put together and the traceback written here, so that nothing unmasked is left in the record."""
    try:
        message = record.getMessage()
    except Exception:  # a wrong number of arguments: logging itself tells about it
        return record
    if (safe := masked(message)) != message:
        record.msg, record.args = safe, None
    if record.exc_info and record.exc_info[0] is not None:
        record.exc_text = masked("".join(traceback.format_exception(*record.exc_info)).rstrip("\n"))
    if record.stack_info:
        record.stack_info = masked(record.stack_info)
    return record


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
    else:
        logging.getLogger("onward_ledger").critical("An error ended the process.", exc_info=(kind, error, trace))


def _uncaught_in_thread(ended: threading.ExceptHookArgs) -> None:
    if ended.exc_value is not None:
        name = ended.thread.name if ended.thread is not None else "?"
        exc_info = (ended.exc_type, ended.exc_value, ended.exc_traceback)
        logging.getLogger("onward_ledger").critical("An error ended the thread %s.", name, exc_info=exc_info)
