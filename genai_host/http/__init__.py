"""HTTP, for the providers that speak it: `Services.http` is a `Transport`.

transport     requests out, replies and events in
connections   whose a connection is, proxies, certificates
response      from bytes to a reply
encoding      replies that are compressed
framing       from bytes to events

Nothing of it is imported before the first request.
"""
