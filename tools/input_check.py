"""Is this a file we can read, and is it of a sane size? Asked before any reader touches it.

Every refusal is one clear sentence, with what to do about it. Content decides, not the name; the name only decides
between a text file that is a table and one that is not meant to be.
"""

from __future__ import annotations

import io
import stat
import zipfile
from pathlib import Path, PurePath
from typing import Final, Literal

from tools.errors import InputError
from tools.sheet import quoted

MAX_FILE_BYTES: Final = 256 * 1024**2  # it is held in memory while it is stored
MAX_UNPACKED_BYTES: Final = 1024**3  # 200,000 rows of 12 columns unpack to 0.11 GiB
MAX_PARTS: Final = 10_000  # files inside the .xlsx
MAX_ROWS: Final = 1_048_576  # what a sheet of Excel can hold
MAX_COLUMNS: Final = 1_000
MAX_CELLS: Final = 5_000_000  # rows x columns of all sheets; the reader needs about 80 bytes for each

Kind = Literal["xlsx", "csv"]

_ZIP: Final = b"PK\x03\x04"
_EMPTY_ZIP: Final = b"PK\x05\x06"
_OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_TEXT_SUFFIXES: Final = (".csv", ".tsv", ".tab", ".txt")
_EXCEL_SUFFIXES: Final = (".xlsx", ".xlsm", ".xltx", ".xltm")
_OTHER_DOCUMENTS: Final = {
    "word/document.xml": "a Word document",
    "ppt/presentation.xml": "a PowerPoint presentation",
    "xl/workbook.bin": "a binary workbook (.xlsb)",
    "mimetype": "an OpenDocument file",
}


def load(data: bytes | Path) -> bytes:
    """The content of the input, or InputError when there is none to read."""
    content = data if isinstance(data, bytes) else _read_file(data)
    if not content:
        raise InputError("The file is empty (0 bytes). Export it again and check that it was saved completely.")
    if len(content) > MAX_FILE_BYTES:
        raise InputError(_too_large(len(content)))
    return content


def kind_of(content: bytes, name: str) -> Kind:
    """Whether this is an .xlsx workbook or a text table; InputError for anything else."""
    suffix = PurePath(name).suffix.lower()
    if content.startswith((_ZIP, _EMPTY_ZIP)):
        _check_zip(content, name)
        return "xlsx"
    if content.startswith(_OLE):
        raise InputError(_ole_message(content, name))
    if suffix in _TEXT_SUFFIXES:
        return "csv"
    if suffix in _EXCEL_SUFFIXES:
        raise InputError(
            f"{quoted(name)} is not a workbook, whatever its name says. Save it again as .xlsx from Excel."
        )
    raise InputError(f"{quoted(name)} is of a kind that cannot be read here. Give an .xlsx workbook or a .csv file.")


def check_size(where: str, rows: int, columns: int) -> None:
    """Refuse a table beyond the declared limits, by the rectangle that it spans, as far as it was looked through."""
    for count, limit, what in ((rows, MAX_ROWS, "rows"), (columns, MAX_COLUMNS, "columns")):
        if count > limit:
            raise InputError(
                f"{where} spans at least {count:,} {what}, and at most {limit:,} can be read. "
                "Delete stray cells far from the table, or split the file."
            )
    check_cells(where, rows * columns)


def check_cells(where: str, cells: int) -> None:
    """Refuse more cells than fit into memory."""
    if cells > MAX_CELLS:
        raise InputError(
            f"{where} spans {cells:,} cells (rows times columns), and at most {MAX_CELLS:,} can be read. "
            "Delete stray cells far from the table, or split the file."
        )


def _read_file(path: Path) -> bytes:
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise InputError(f"{quoted(str(path))} is a folder. Name the workbook inside it.")
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"{quoted(str(path))} is not a regular file. Name an .xlsx or .csv file.")
        if status.st_size > MAX_FILE_BYTES:
            raise InputError(_too_large(status.st_size))
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"There is no file {quoted(str(path), 200)}. Check the path.") from None
    except PermissionError:
        raise InputError(
            f"The file {quoted(str(path), 200)} may not be read by this user. Change its rights."
        ) from None
    except (OSError, ValueError) as error:
        raise InputError(f"The file {quoted(str(path), 200)} could not be read: {error}.") from None


def _too_large(size: int) -> str:
    return (
        f"The file has {size / 1024**2:,.0f} MB, and at most {MAX_FILE_BYTES // 1024**2} MB can be read. "
        "Split it, or remove images and sheets that are not needed."
    )


def _ole_message(content: bytes, name: str) -> str:
    if "EncryptedPackage".encode("utf-16-le") in content:
        return f"{quoted(name)} is encrypted with a password. Remove the password in Excel and save it again."
    return f"{quoted(name)} is a file of an old format (such as .xls). Open it in Excel and save it as .xlsx."


def _check_zip(content: bytes, name: str) -> None:
    damaged = f"{quoted(name)} is damaged or incomplete and cannot be opened as a workbook. Save or download it again."
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            parts = archive.infolist()
    except (zipfile.BadZipFile, ValueError, OSError, EOFError, NotImplementedError, UnicodeDecodeError):
        raise InputError(damaged) from None
    names = {part.filename for part in parts}
    for marker, what in _OTHER_DOCUMENTS.items():
        if marker in names:
            raise InputError(f"{quoted(name)} is {what}. Open it in Excel and save it as .xlsx.")
    if "[Content_Types].xml" not in names or not any(part.endswith("workbook.xml") for part in names):
        raise InputError(f"{quoted(name)} is an archive without a workbook in it. Give an .xlsx or .csv file.")
    unpacked = sum(part.file_size for part in parts)
    if len(parts) > MAX_PARTS or unpacked > MAX_UNPACKED_BYTES:
        raise InputError(
            f"{quoted(name)} unpacks to {unpacked / 1024**2:,.0f} MB in {len(parts):,} parts, which is absurdly large "
            f"for a workbook (at most {MAX_UNPACKED_BYTES // 1024**2:,} MB). Split it, or check where it comes from."
        )
    if any(part.flag_bits & 0x1 for part in parts):
        raise InputError(f"{quoted(name)} is an encrypted archive. Remove the password and save it again.")
