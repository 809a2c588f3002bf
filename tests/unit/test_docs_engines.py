"""What docs/engines.md says of defaults, names and exit codes."""

from __future__ import annotations

import inspect
import re

from runs.errors import Exit
from runs.temporal import cli, values
from tests.support.markdown import document

ENGINES = document("docs/engines.md")
TEXT = " ".join(ENGINES.text.split())


def test_defaults_are_those_of_the_code():
    assert f"--heartbeat`, {values.Order.heartbeat_seconds:g} seconds" in TEXT
    assert (values.Order.poll_seconds, "a look every minute (`--poll`)" in TEXT) == (60.0, True)
    assert f"within `--grace` seconds ({inspect.signature(cli.worker).parameters['grace'].default:g})" in TEXT
    assert f"`{values.drives_queue(values.DEFAULT_QUEUE, '1')}` is that of version 1" in TEXT
    assert {values.DRIVE, values.DECIDED} <= set(ENGINES.spans())


def test_exit_codes_that_a_job_does_not_try_again():
    (said,) = re.findall(r"values: \[([\d, ]+)\]", ENGINES.text)
    ends = {Exit.FAILED, Exit.USAGE, Exit.NOT_FOUND, Exit.WAITING, Exit.LIMIT, Exit.UNKNOWN_OUTCOME}
    assert {int(code) for code in said.split(",")} == ends
    again = re.search(r"Exit codes 4 \(.*?\), 6 \(.*?\) and 9 \(.*?\) are failures", TEXT)
    assert again is not None
    assert ends | {Exit.OK, Exit.CONFLICT, Exit.HANDED_BACK, Exit.UNREACHABLE} == set(Exit) - {Exit.DISPROVED}


def test_the_table_has_an_owner_in_every_cell():
    (header, rows), *_ = ENGINES.tables()
    assert len(header) == 6
    assert all(all(cells) for cells in rows)
