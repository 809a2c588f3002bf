"""The commands that move a local database to another major version of PostgreSQL.

Data of one major version cannot be read by another. Nothing is converted or removed by itself: a person gets the
commands, and the old data stays.
"""

from __future__ import annotations

from shlex import quote

from runs.postgres_binaries import WITHOUT, Binaries
from runs.postgres_place import Place


def how_to_move(place: Place, made_by: int, binaries: Binaries) -> str:
    """The whole message for a database that was made by major version `made_by` and found by other programs."""
    steps = "\n".join(f"  {command}" for command in move_commands(place, made_by, binaries))
    return (
        f"The database in {place.data} was made by PostgreSQL {made_by}, and the programs in {binaries.origin} are "
        f"PostgreSQL {binaries.major}. Nothing was changed. To go on with PostgreSQL {made_by}, set PG_BIN to the "
        f"folder of its programs. To move the data to PostgreSQL {binaries.major}:\n{steps}\n{WITHOUT}"
    )


def move_commands(place: Place, made_by: int, binaries: Binaries) -> list[str]:
    """Shell commands: dump with the old programs, put the old data aside, restore with the new ones."""
    data, sockets = quote(str(place.data)), quote(str(place.sockets))
    aside = quote(f"{place.data}-{made_by}")
    dump = quote(str(place.home / f"postgres-{made_by}.sql"))
    pointer = f" && rm -f {quote(str(place.pointer))}" if place.account.switch else ""
    as_account = f"runuser -u {place.account.name} -- " if place.account.switch else ""
    options = quote(f"-c listen_addresses= -c unix_socket_directories={sockets}")
    client = f"-h {sockets} -p 5432 -U postgres"
    new = quote(str(binaries.origin / "psql"))
    return [
        f"OLD=/usr/lib/postgresql/{made_by}/bin    # or wherever PostgreSQL {made_by}'s programs are",
        f'{as_account}"$OLD/pg_ctl" -D {data} -l {data}/move.log -o {options} -w start',
        f'"$OLD/pg_dump" {client} -f {dump} postgres',
        f'{as_account}"$OLD/pg_ctl" -D {data} -m fast -w stop',
        f"mv {data} {aside}{pointer}",
        f"onward list    # makes an empty database of PostgreSQL {binaries.major}",
        f"{new} {client} -q -d template1 -c 'DROP DATABASE postgres WITH (FORCE)' -c 'CREATE DATABASE postgres'",
        f"{new} {client} -q -d postgres -v ON_ERROR_STOP=1 -f {dump}",
    ]
