"""Files that are dropped on the page."""

from __future__ import annotations

from page.visits import Visit

DOT = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001"
    "a5f645400000000049454e44ae426082"
)


FILE = """
    const bytes = Uint8Array.from(%s);
    const data = new DataTransfer();
    data.items.add(new File([bytes], "%s", { type: "%s" }));
"""


def drop(there: Visit, name: str, media_type: str) -> None:
    there.page.evaluate(
        "() => {"
        + FILE % (list(DOT), name, media_type)
        + """document.querySelector(".talk").dispatchEvent(
            new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));}"""
    )
