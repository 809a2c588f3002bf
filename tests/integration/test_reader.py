"""Reading in a process of its own: the same tables, clear refusals, and no process left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import psutil
import pytest

from tests.support.runs_world import until
from tools.errors import InputError, ReaderDied
from tools.process import end_children
from tools.profile import profile
from tools.reader import REPOSITORY, read_first, read_second
from tools.workbook import read_again, read_workbook

MESSY = REPOSITORY / "examples/messy.xlsx"


def readers_of(process: psutil.Process) -> list[psutil.Process]:
    """The readers among a process's children."""
    return [c for c in process.children() if c.status() != psutil.STATUS_ZOMBIE and "tools.reader_child" in c.cmdline()]


def test_both_reads_give_what_they_give_in_this_process(tmp_path: Path) -> None:
    here = read_workbook(MESSY, MESSY.name)
    first = read_first(MESSY, MESSY.name, tmp_path)
    assert first.profile == profile(here)
    assert [t.sheet for t in first.tables] == [s.name for s in here.sheets]
    for table, sheet in zip(first.tables, here.sheets, strict=True):
        assert pl.read_parquet(table.path).equals(sheet.table)
    second = read_second(MESSY, MESSY.name, tmp_path, first.profile)
    again = read_again(MESSY, MESSY.name, first.profile)
    assert {name: pl.read_parquet(path).rows() for name, path in second.items()} == {
        name: table.rows() for name, table in again.items()
    }


def test_a_file_that_cannot_be_used_is_refused_with_its_sentence(tmp_path: Path) -> None:
    source = tmp_path / "book.xlsx"
    source.write_bytes(b"not a workbook")
    with pytest.raises(InputError) as here:
        read_workbook(source, source.name)
    with pytest.raises(InputError) as there:
        read_first(source, source.name, tmp_path)
    assert there.value.message == here.value.message


def test_a_reader_that_is_killed_is_an_indefinite_error(tmp_path: Path) -> None:
    def kill_reader(text: str, done: int, total: int) -> None:
        for reader in readers_of(psutil.Process()):
            reader.kill()

    with pytest.raises(ReaderDied, match="was ended by signal 9") as died:
        read_first(MESSY, MESSY.name, tmp_path, kill_reader)
    assert not died.value.definite


def test_a_killed_reader_leaves_nothing_outside_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it leaves inside (a copy of the input) goes with the folder, which the next drive of the run removes."""
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / "folder"
    elsewhere.mkdir()
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(elsewhere))

    def kill_while_reading(text: str, done: int, total: int) -> None:
        if "reading sheet" in text:
            for reader in readers_of(psutil.Process()):
                reader.send_signal(signal.SIGKILL)

    with pytest.raises(ReaderDied):
        read_first(MESSY, MESSY.name, folder, kill_while_reading)
    assert list(elsewhere.iterdir()) == []


def test_progress_that_raises_ends_the_reader(tmp_path: Path) -> None:
    readers: list[psutil.Process] = []

    def stop(text: str, done: int, total: int) -> None:
        readers.extend(readers_of(psutil.Process()))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read_first(MESSY, MESSY.name, tmp_path, stop)
    assert len(readers) == 1
    assert not readers[0].is_running()


PARENT = """
import sys, time
from pathlib import Path
from tools.reader import read_first
def hold(text, done, total):
    print("reading", flush=True)
    time.sleep(600)
read_first(Path(sys.argv[1]), "messy.xlsx", Path(sys.argv[2]), hold)
"""


def test_the_reader_dies_with_a_killed_parent(tmp_path: Path) -> None:
    """The reader's answer fills its pipe at most, so it could end by itself; it is stopped so that it cannot."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(MESSY), str(tmp_path)], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    )
    with parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "reading\n"
        (reader,) = readers_of(psutil.Process(parent.pid))
        reader.send_signal(signal.SIGSTOP)
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
        until(lambda: not reader.is_running() or reader.status() == psutil.STATUS_ZOMBIE)


def test_a_read_is_ended_at_once_when_the_step_is_to_stop(tmp_path: Path) -> None:
    def stop(text: str, done: int, total: int) -> None:
        assert end_children() == 1

    with pytest.raises(ReaderDied, match="was ended by signal 9"):
        read_first(MESSY, MESSY.name, tmp_path, stop)
    assert end_children() == 0
