"""How connections to Postgres notice that the network is away."""

from __future__ import annotations

from psycopg.conninfo import conninfo_to_dict

from onward_ledger.database.postgres import NETWORK_TIMEOUT_SECONDS, connection_string


def test_a_connection_whose_network_is_away_ends_in_seconds() -> None:
    made = conninfo_to_dict(connection_string("postgresql://h/d?connect_timeout=60", "a test", {"search_path": "s"}))
    assert made["tcp_user_timeout"] == str(NETWORK_TIMEOUT_SECONDS * 1000)
    assert (made["connect_timeout"], made["application_name"]) == ("5", "a test")
    assert NETWORK_TIMEOUT_SECONDS < 15, "before a usual lease is over"
