"""The web chat: a page that uses the native API, and the assistants API if the server has it.

    GET  /                      the page
    GET  /page/assets/{name}    its scripts and style sheets, from `assets/`
    POST /page/markdown         renders Markdown of a model as a tree that the page builds

There is no build step, and nothing is loaded from other servers. The page's Content Security Policy
forbids other scripts and styles, and the page never inserts HTML.
"""
