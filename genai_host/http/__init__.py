"""The HTTP client for providers: `Services.http` is a `Transport`.

- `transport`: sends requests and reads replies
- `connections`: connection pool, proxies, certificates
- `response`: parser of responses

These modules are imported with the first request.
"""
