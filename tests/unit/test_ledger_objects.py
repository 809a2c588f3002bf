"""Objects in a folder: written once, checked on reading, on disk before success, no leftovers taken for objects."""

import os
from pathlib import Path

import pytest

from onward_ledger import errors
from onward_ledger import objects as module
from onward_ledger.objects import Objects, check_key, digest_of
from tools.errors import DigestMismatch
from tools.files import Files


@pytest.fixture
def objects(tmp_path) -> Objects:
    return Objects(str(tmp_path / "objects"))


def test_the_same_bytes_again_are_success_and_others_a_conflict(objects):
    first = objects.put_once("a/b.md", b"one")
    again = objects.put_once("a/b.md", b"one")
    assert (first.digest, first.size, first.created, again.created) == (digest_of(b"one"), 3, True, False)
    with pytest.raises(errors.ObjectConflict, match=r"a/b\.md exists with the digest"):
        objects.put_once("a/b.md", b"two")
    assert objects.read("a/b.md") == b"one"


def test_reading_checks_the_digest(objects, tmp_path):
    objects.put_once("a", b"one")
    assert objects.read_checked("a", digest_of(b"one")) == b"one"
    with pytest.raises(errors.DigestMismatch):
        objects.read_checked("a", digest_of(b"two"))
    (tmp_path / "objects" / "a").write_bytes(b"on")
    with pytest.raises(errors.DigestMismatch):
        objects.read_checked("a", digest_of(b"one"))
    with pytest.raises(errors.ObjectMissing):
        objects.read("b")


@pytest.mark.parametrize(
    "key",
    [
        *(
            "",
            "/a",
            "a/",
            "a//b",
            "../a",
            "a/../b",
            ".",
            "a/.",
            "a\\b",
            "a#1",
            "a?b",
            "a*",
            "a\x00b",
            " a",
            "a/b ",
            "a%2e",
        ),
        *("x" * 901, "\ud800", "é" * 451),
    ],
)
def test_a_key_that_is_no_plain_relative_path_is_refused(objects, key):
    for call in (lambda: objects.put_once(key, b"x"), lambda: objects.read(key)):
        with pytest.raises(errors.BadKey):
            call()


@pytest.mark.parametrize("key", ["a", "a/b.md", "报告/图 1.svg", "x" * 900, "a~b", "a=b,c;d@e!"])
def test_a_plain_key_is_taken_as_it_is(objects, key):
    name = key if len(key) < 250 else "/".join(key[i : i + 200] for i in range(0, 800, 200))
    assert check_key(key) == key
    objects.put_once(name, b"x")
    assert objects.keys() == [name]


def test_keys_are_listed_below_a_prefix(objects):
    for key in ("a/1", "a/2", "ab/3"):
        objects.put_once(key, b"x")
    assert (objects.keys("a"), objects.keys()) == (["a/1", "a/2"], ["a/1", "a/2", "ab/3"])


def test_the_file_and_the_names_above_it_are_on_disk_before_success(objects, tmp_path, monkeypatch):
    synced: list[Path] = []
    real = module._fsync

    def fsync(path):
        synced.append(path)
        real(path)

    monkeypatch.setattr(module, "_fsync", fsync)
    root = tmp_path / "objects"
    objects.put_once("a/b/one", b"1")
    assert synced == [root / "a/b/one", root / "a/b", root / "a", root]
    synced.clear()
    objects.put_once("a/b/two", b"2")
    assert synced == [root / "a/b/two", root / "a/b"]
    synced.clear()
    objects.put_once("a/b/two", b"2")
    assert synced == [root / "a/b/two", root / "a/b"], "its writer may have died before it was on disk"


def test_what_a_killed_writer_left_is_no_object_and_is_removed_when_old(objects, tmp_path):
    objects.put_once("a/report.md", b"x")
    old, young = tmp_path / "objects" / "a" / "report.md#1", tmp_path / "objects" / "a" / "other.md#12"
    for path in (old, young):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    assert objects.keys() == ["a/report.md"]
    assert objects.remove_leftovers() == 1
    assert (old.exists(), young.exists()) == (False, True)
    assert objects.put_once("a/other.md", b"whole").created


def test_a_folder_can_be_named_by_path_or_url(tmp_path):
    Objects(str(tmp_path / "with space")).put_once("a", b"x")
    assert Objects((tmp_path / "with space").as_uri()).read("a") == b"x"


@pytest.mark.parametrize("url", ["memory:///", "file://host/x", "nonsense://x"])
def test_a_place_that_keeps_nothing_or_does_not_exist_is_refused(url):
    with pytest.raises(errors.BadRequest):
        Objects(url)


def test_a_folder_that_cannot_be_written_is_unreachable(objects, tmp_path):
    (tmp_path / "objects" / "a").write_bytes(b"a file where a folder should be")
    with pytest.raises(errors.ObjectsUnreachable):
        objects.put_once("a/b", b"x")


def test_files_of_a_run_are_named_by_what_they_hold(objects, tmp_path):
    files = Files(objects, "run-1")
    ref = files.put(b"data")
    assert ref == {"key": f"runs/run-1/{digest_of(b'data')}", "digest": digest_of(b"data"), "size": 4}
    assert (files.put(b"data"), files.get(ref)) == (ref, b"data")
    (tmp_path / "objects" / ref["key"]).write_bytes(b"dat4")
    with pytest.raises(DigestMismatch):
        files.get(ref)
