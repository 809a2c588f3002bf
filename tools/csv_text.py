"""From the bytes of a .csv to characters, and the character that separates its cells.

Encoding: a byte order mark, else UTF-16 where zero bytes alternate with ASCII, else UTF-8 if the bytes are valid
UTF-8, else what charset-normalizer finds likely among the encodings that spreadsheets still write. A file with other
zero bytes is refused, since they are no characters and hide what the file holds. Delimiter: a first line "sep=;"
(which Excel writes), else the one of , ; tab | that cuts the first records into the same number of cells most often.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from typing import Final

from charset_normalizer import from_bytes

from tools.errors import InputError

DELIMITERS: Final = (",", ";", "\t", "|")
LONGEST_CELL: Final = 1 << 20  # characters; Excel allows 32,767
_SNIFFED_RECORDS: Final = 200
_SNIFFED_BYTES: Final = 1 << 18

# By how the bytes beyond ASCII stand; fewer candidates make fewer wrong guesses from a short file.
_WESTERN: Final = ("cp1252", "cp1250", "cp1254")  # single letters among others: Müller
_OTHERS: Final = ("gb18030", "big5", "shift_jis", "cp1251", "cp1253")  # whole words: Иван, 北京
_HIGH: Final = re.compile(rb"[\x80-\xff]+")
_HANGUL: Final = range(0xB0, 0xC9)  # the first bytes of Korean letters in EUC-KR, and of three in five Chinese ones
_KANA: Final = (0xA4, 0xA5)
_ENOUGH_HANGUL: Final = 8  # characters; as many Chinese ones all in that range would be a chance of 1 in 60
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_ON_ONE_SIDE: Final = 0.95  # of the zero bytes of UTF-16
_OF_ASCII: Final = 0.4  # of the bytes below 0x80 are zero in UTF-16, half of them if it is all Latin
_CONTROL: Final = re.compile(r"[\x01-\x08\x0e-\x1a\x1c-\x1f]")
_SEPARATOR_LINE: Final = re.compile(r"\ufeff?sep=(.)\r?\n", re.IGNORECASE)


def find_encoding(content: bytes) -> str:
    """The name of the encoding in which all of the content can be decoded, or InputError."""
    encoding = next((name for mark, name in _MARKS if content.startswith(mark)), None)
    for candidate in [encoding] if encoding else [*_by_zero_bytes(content), "utf-8", *_likely(content)]:
        text = _decoded(content, candidate)
        if text is not None:
            _check_is_text(text)
            return candidate
    raise InputError("The characters of the file cannot be made out. Save it again as .csv in UTF-8.")


def find_delimiter(text: str) -> tuple[str, int]:
    """The delimiter, and how many characters at the beginning are not data."""
    line = _SEPARATOR_LINE.match(text[:20])
    if line:
        return line[1], line.end()
    sample = text[:_SNIFFED_BYTES]
    if len(text) > len(sample):
        sample = sample[: sample.rfind("\n") + 1] or sample
    best = max(DELIMITERS, key=lambda delimiter: (_regularity(sample, delimiter), -DELIMITERS.index(delimiter)))
    return best, 0


def _decoded(content: bytes, encoding: str) -> str | None:
    try:
        return content.decode(encoding)
    except (UnicodeDecodeError, LookupError):
        return None


def _by_zero_bytes(content: bytes) -> list[str]:
    """UTF-16 without a mark: Latin letters, digits and delimiters have a zero byte, always on the same side.

    Stray zero bytes in other text would turn into letters nobody wrote, so nothing less will do.
    """
    sample = content[:_SNIFFED_BYTES]
    even, odd = sample[0::2].count(0), sample[1::2].count(0)
    ascii_range = len(sample) - sum(map(len, _HIGH.findall(sample)))
    if max(even, odd) < _ON_ONE_SIDE * (even + odd) or even + odd < max(1, _OF_ASCII * ascii_range):
        return []
    return ["utf-16-le"] if odd > even else ["utf-16-be"]


def _likely(content: bytes) -> list[str]:
    """Guesses from a sample, the likelier first; Western European last, since it decodes nearly anything."""
    sample = b"\n".join(line for line in content[:_SNIFFED_BYTES].splitlines() if not line.isascii())
    runs = _HIGH.findall(sample)
    if sum(map(len, runs)) < 1.5 * len(runs):
        found = [match.encoding for match in from_bytes(sample, cp_isolation=list(_WESTERN))]
        same = bool(found) and _decoded(sample, "cp1252") == _decoded(sample, found[0])
        return ["cp1252", *found] if same else [*found, "cp1252"]
    found = [match.encoding for match in from_bytes(sample, cp_isolation=list(_OTHERS))]
    return [*_by_pairs(runs), *found, "cp1252"]


def _by_pairs(runs: list[bytes]) -> list[str]:
    """Chinese (GB), Japanese and Korean as pairs of bytes from 0xA1 on, told apart by the first of each pair."""
    if any(len(run) % 2 or min(run) < 0xA1 for run in runs):
        return []
    leads = b"".join(run[0::2] for run in runs)
    if sum(lead in _KANA for lead in leads) > len(leads) // 5:
        return ["euc_jp"]
    korean = len(leads) >= _ENOUGH_HANGUL and all(lead in _HANGUL for lead in leads)
    return ["euc_kr" if korean else "gb18030"]


def _check_is_text(text: str) -> None:
    sample = text[:_SNIFFED_BYTES]
    if len(_CONTROL.findall(sample)) > len(sample) // 100:
        raise InputError("The file is not text, whatever its name says. Give an .xlsx workbook or a .csv file.")
    place = text.find("\0")
    if place >= 0:
        line = 1 + len(re.findall(r"\r\n|\r|\n", text[:place]))
        raise InputError(
            f"The file is not text, whatever its name says: there is a zero byte in line {line:,}. "
            "Save it again as .csv in UTF-8, or give an .xlsx workbook."
        )


def _regularity(sample: str, delimiter: str) -> tuple[float, int]:
    """How many of the records have the usual number of cells, if that is more than one; and that number."""
    counts: Counter[int] = Counter()
    try:
        for record in csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter):
            counts[len(record)] += bool(record)
            if counts.total() >= _SNIFFED_RECORDS:
                break
    except csv.Error:
        return 0.0, 0
    usual, times = max(counts.items(), key=lambda entry: (entry[1], entry[0]), default=(0, 0))
    return (times / counts.total(), usual) if usual > 1 else (0.0, 0)
