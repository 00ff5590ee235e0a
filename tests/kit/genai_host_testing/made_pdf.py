"""Hand-written PDFs, valid and invalid."""

from __future__ import annotations

from collections.abc import Sequence


def pdf(contents: Sequence[bytes], title: str = "", filter: str = "") -> bytes:
    """Return a PDF with a page for each content."""
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(contents)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(contents)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, content in enumerate(contents):
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Resources << /Font << /F1 3 0 R"
            b" >> >> /Contents %d 0 R >>" % (5 + 2 * number)
        )
        objects.append(
            b"<< /Length %d %s >>\nstream\n%s\nendstream"
            % (len(content), f"/Filter {filter}".encode() if filter else b"", content)
        )
    objects.append(f"<< /Title ({title}) >>".encode())
    out, places = b"%PDF-1.7\n", []
    for number, each in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    return out + (
        b"xref\n0 %d\n0000000000 65535 f \n%strailer\n<< /Size %d /Root 1 0 R /Info %d 0 R >>\n"
        b"startxref\n%d\n%%%%EOF\n"
        % (len(objects) + 1, table, len(objects) + 1, len(objects), len(out))
    )
