"""Hostile Markdown, and a trap for what it would do."""

from __future__ import annotations

from page.visits import Visit

HOSTILE = (
    "<script>hit()</script>",
    "<img src=x onerror=hit()>",
    "<img src='https://evil.example/track.png'>",
    "![track](https://evil.example/track.png)",
    "![x](data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9ImhpdCgpIi8+)",
    "[a](javascript:hit())",
    "[a](JaVaScRiPt:hit())",
    "[a](\x01javascript:hit())",
    "[a](java&#x0A;script:hit())",
    "[a](&#106;avascript:hit())",
    "[a](vbscript:hit)",
    "[a](data:text/html,<script>hit()</script>)",
    "[a](//evil.example)",
    "<javascript:hit()>",
    "[a]: javascript:hit()\n\n[a]",
    '[a](https://x.example "\\" onmouseover=hit() x=\\"")',
    "<svg onload=hit()><animate onbegin=hit() attributeName=x>",
    "<iframe srcdoc='<script>hit()</script>'></iframe>",
    "<math><mtext></form><form><mglyph><style></math><img src onerror=hit()>",
    "<a href='javascript:hit()'>x</a><base href=//evil.example>",
    "<style>@import url(https://evil.example/x.css)</style>",
    "<link rel=stylesheet href=https://evil.example/x.css>",
    "<meta http-equiv=refresh content='0;url=https://evil.example'>",
    "<form action=https://evil.example><button>x</button></form>",
    '```"><img src=x onerror=hit()>\nx\n```',
    "```js' onclick='hit()\nx\n```",
    "| <img src=x onerror=hit()> | b |\n| --- | --- |\n| <script>hit()</script> | c |",
    "# <img src=x onerror=hit()>\n\n> <details open ontoggle=hit()>",
    "</div></main></body><script>hit()</script>",
    "${hit()} {{hit()}} <%= hit() %>",
    "\x00<\x00script>hit()</script>",
    "&lt;script&gt;hit()&lt;/script&gt; &#60;img src=x onerror=hit()&#62;",
)


TRAP = "window.hits = 0; window.hit = () => { window.hits += 1; return 'hit'; };"


FOUND = """() => ({
    hits: window.hits,
    scripts: document.scripts.length,
    elements: document.querySelector("main").querySelectorAll(
        "iframe, script, style, link, meta, object, embed, base, form:not(.composer), "
        + "[onerror], [onload], [onclick]").length,
    images: [...document.images].map((each) => each.src)
        .filter((address) => !/^(data|blob):/.test(address)).length,
    links: [...document.querySelectorAll("main a[href]")].map((each) => each.protocol)
        .filter((each) => !["http:", "https:", "mailto:"].includes(each)).length,
    rels: [...document.querySelectorAll("main a[target]")]
        .filter((each) => each.rel !== "noopener noreferrer nofollow").length,
})"""


NOTHING = {"hits": 0, "scripts": 1, "elements": 0, "images": 0, "links": 0, "rels": 0}


def trapped(there: Visit) -> Visit:
    there.page.add_init_script(TRAP)
    there.page.reload()
    return there


def look(there: Visit, *, forms: int = 0) -> None:
    """Do what a user might, and see that nothing came of it.

    forms   how many the page itself has there
    """
    for link in there.page.locator("main a[target]").all():
        link.hover()
    assert there.page.evaluate(FOUND) == {**NOTHING, "elements": forms}
