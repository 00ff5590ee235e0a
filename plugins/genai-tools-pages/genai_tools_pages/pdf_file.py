"""The text of a PDF.

pypdf is slower than pdfium, and is Python: a file that is made to break its reader gets an
exception of it, where one in C++ may be taken over, and the process that reads has the
rights of the user.
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
    """The title and the text of a PDF.

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
            raise ValidationError("the PDF needs a password")
        return _title(reader), _text(reader, time.monotonic() + seconds)
    except (ValidationError, MemoryError):
        raise
    except DependencyError:
        raise ValidationError("the PDF is encrypted in a way that cannot be read here") from None
    except Exception as error:  # a broken file raises whatever it leads to
        raise ValidationError("the PDF is broken: it cannot be read") from error


def _title(reader: PdfReader) -> str:
    """What the file says of itself, which may be broken and no reason to fail."""
    try:
        found = reader.metadata and reader.metadata.title
    except Exception:  # noqa: BLE001 - see above
        return ""
    return found if isinstance(found, str) else ""


def _text(reader: PdfReader, until: float) -> str:
    """The pages, one below the other; what of them is missing is said at the end."""
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
        raise ValidationError("the PDF has no text: it may be a scan, which has pictures alone")
    if broken:
        texts.append(f"({broken} pages are broken and could not be read)")
    if number < pages:
        texts.append(f"(pages {number + 1} to {pages} were not read)")
    return "\n\n".join(filter(None, texts))
