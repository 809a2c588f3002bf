"""What the second read finds reaches the driver from the child that reads."""

from __future__ import annotations

import pytest

from tests.support.workbook_files import xlsx
from tools.errors import ReadsDiffer
from tools.reader import read_first, read_second


def test_a_cell_that_is_not_what_the_profile_says_comes_back_as_a_sentence(tmp_path):
    source = tmp_path / "book.xlsx"
    source.write_bytes(xlsx([["n"], [1], ["n/a"], [3]]))
    profile = read_first(source, "book.xlsx", tmp_path).profile
    assert profile is not None and profile["sheets"][0]["columns"][0]["type"] == "mixed"
    assert set(read_second(source, "book.xlsx", tmp_path, profile)) == {"Data"}
    profile["sheets"][0]["columns"][0]["type"] = "integer"  # as a read would say that had lost "n/a"
    with pytest.raises(ReadsDiffer, match='"n" was read as integer'):
        read_second(source, "book.xlsx", tmp_path, profile)
