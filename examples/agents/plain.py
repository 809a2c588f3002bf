"""An agent that opens a ticket and writes mails, as most people write it: it works, until its process dies."""

import desk
from langchain.agents import create_agent
from langchain_core.tools import tool
from scripted import model


@tool
def create_ticket(title: str) -> str:
    """Open a ticket."""
    return desk.open_ticket(title)


@tool
def send_mail(to: str, text: str) -> str:
    """Send a mail."""
    return desk.send_mail(to, text)


agent = create_agent(model, [create_ticket, send_mail])
