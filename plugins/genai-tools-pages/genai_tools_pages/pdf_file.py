"""Extraction of text from a PDF.

pypdf is slower than pdfium, but written in Python. A malicious file causes an exception, while it
could take over C++ code, and the process has the rights of the user.
"""

from __future__ import annotations

import io
import time
from typing import TYPE_CHECKING

from genai_host.errors import ValidationError
from genai_tools_pages.page import MOST_TEXT
from genai_tools_pages.tidy import tidy

if TYPE_CHECKING:
    from pypdf import PdfReader


def read_pdf(data: bytes, seconds: float) -> tuple[str, str]:
    """Return the title and the text of a PDF.

    Args:
        data: The PDF.
        seconds: Time limit; pages not read until then are mentioned.

    Raises:
        ValidationError: The file is damaged, needs a password or has no text.
    """
    from pypdf import PdfReader
    from pypdf.errors import DependencyError

    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise ValidationError("the PDF requires a password")
        return _title(reader), _text(reader, time.monotonic() + seconds)
    except (ValidationError, MemoryError):
        raise
    except DependencyError:
        raise ValidationError("the encryption of the PDF is not supported") from None
    except Exception as error:  # a broken file can raise any exception
        raise ValidationError("the PDF is damaged") from error


def _title(reader: PdfReader) -> str:
    """Return the title from the metadata; empty if they are damaged."""
    try:
        found = reader.metadata and reader.metadata.title
    except Exception:  # noqa: BLE001 - see above
        return ""
    return found if isinstance(found, str) else ""


def _text(reader: PdfReader, until: float) -> str:
    """Return the text of the pages, with a note on missing pages."""
    pages = len(reader.pages)
    texts: list[str] = []
    broken, length, number = 0, 0, 0
    for number in range(1, pages + 1):
        try:
            text = tidy(reader.pages[number - 1].extract_text())
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001 - one broken page does not keep the others
            text, broken = "", broken + 1
        texts.append(text)
        length += len(text)
        if length > MOST_TEXT or time.monotonic() > until:
            break
    if not length:
        raise ValidationError("the PDF has no text: it may be a scan")
    if broken:
        texts.append(f"({broken} pages are damaged and could not be read)")
    if number < pages:
        texts.append(f"(pages {number + 1} to {pages} were not read)")
    return "\n\n".join(filter(None, texts))
