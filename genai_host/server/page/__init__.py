"""The web chat: a page that uses the native API, and the API of assistants where the server
has one.

    GET  /                      the page
    GET  /page/assets/{name}    its scripts and its style, as they are in `assets/`
    POST /page/markdown         what a model wrote, as a tree that the page builds

There is no build step, and nothing comes from elsewhere. The page's own policy forbids
scripts and styles that are not files of it, and it has no place that takes HTML.
"""
