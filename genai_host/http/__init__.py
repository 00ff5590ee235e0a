"""HTTP, for the providers that speak it: `Services.http` is a `Transport`.

- `transport`: sends a request and reads the reply or its events
- `connections`: the pool of connections, proxies, certificates
- `response`: the parser of replies
- `stream_parsers`: parsers of streams of events

Nothing of it is imported before the first request.
"""
