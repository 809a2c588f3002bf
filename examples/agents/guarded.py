"""The same agent with the ledger: each of its effects happens once, wherever its process dies."""

import os
import time

import desk
from langchain.agents import create_agent
from langchain_core.tools import tool
from scripted import model

from onward_ledger.langgraph import EffectGuard, LedgerClient, ToolEffect, current


@tool
def create_ticket(title: str) -> str:
    """Open a ticket."""
    return desk.open_ticket(title, key=current().action_id)


@tool
def send_mail(to: str, text: str) -> str:
    """Send a mail."""
    return desk.send_mail(to, text, reference=current().action_id)


ticket = ToolEffect(idempotent=True)
mail = ToolEffect(verify=lambda action: desk.mails_with(action.action_id), resend_after_absent=True, **desk.TIMES)
ledger = LedgerClient(os.environ["LEDGER_URL"], os.environ["LEDGER_TOKEN"])
guard = EffectGuard(ledger, {"create_ticket": ticket, "send_mail": mail}, epoch=time.time_ns() // 10**6)
agent = create_agent(model, [create_ticket, send_mail], middleware=[guard])
