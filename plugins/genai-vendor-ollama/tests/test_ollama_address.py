"""OLLAMA_HOST, as Ollama's own tests have it (`envconfig/config_test.go`)."""

from __future__ import annotations

import pytest
from genai_vendor_ollama.provider import address_of, is_cloud
from hypothesis import given, strategies as st

ADDRESSES = {
    "": "http://127.0.0.1:11434",
    "1.2.3.4": "http://1.2.3.4:11434",
    ":1234": "http://127.0.0.1:1234",
    "1.2.3.4:1234": "http://1.2.3.4:1234",
    "example.com": "http://example.com:11434",
    "example.com:1234": "http://example.com:1234",
    "example.com:": "http://example.com:11434",
    "example.com:no": "http://example.com:11434",
    "example.com:²": "http://example.com:11434",
    ":66000": "http://127.0.0.1:11434",
    ":-1": "http://127.0.0.1:11434",
    ":999999999999999999999": "http://127.0.0.1:11434",
    "[::1]": "http://[::1]:11434",
    "::1": "http://[::1]:11434",
    "[::1]:1337": "http://[::1]:1337",
    " 1.2.3.4 ": "http://1.2.3.4:11434",
    '"1.2.3.4"': "http://1.2.3.4:11434",
    ' " 1.2.3.4 " ': "http://1.2.3.4:11434",
    "'1.2.3.4'": "http://1.2.3.4:11434",
    "http://1.2.3.4": "http://1.2.3.4",  # port 80
    "http://1.2.3.4:4321": "http://1.2.3.4:4321",
    "https://1.2.3.4": "https://1.2.3.4",  # port 443
    "https://1.2.3.4:4321": "https://1.2.3.4:4321",
    "https://1.2.3.4:no": "https://1.2.3.4",
    "https://example.com/ollama": "https://example.com/ollama",
    "example.com/ollama/": "http://example.com:11434/ollama",
    "example.com/": "http://example.com:11434",
    "ollama.com": "https://ollama.com",
    "http://ollama.com": "http://ollama.com",
    # what a server listens on at every interface, one connects to at this machine:
    "0.0.0.0": "http://127.0.0.1:11434",
    "0.0.0.0:1234": "http://127.0.0.1:1234",
    "[::]": "http://[::1]:11434",
    "[::]:1234": "http://[::1]:1234",
    "https://0.0.0.0:4321": "https://127.0.0.1:4321",
}


@pytest.mark.parametrize("host", ADDRESSES)
def test_a_host_is_read_as_ollama_reads_it(host: str) -> None:
    assert address_of(host) == ADDRESSES[host]


@given(st.text() | st.text(alphabet=":/[]0123456789.@ \"'htps"))
def test_whatever_it_is_it_is_read(host: str) -> None:
    assert "://" in address_of(host)


@pytest.mark.parametrize("address", sorted(set(ADDRESSES.values())))
def test_an_address_stands_for_itself(address: str) -> None:
    assert address_of(address) == address


@pytest.mark.parametrize("host", ["user:secret@x", "http://user:secret@x:1/y", "user@x"])
def test_a_password_is_left_to_be_refused(host: str) -> None:
    assert "@" in address_of(host)


@pytest.mark.parametrize(
    ("name", "cloud"),
    [
        ("ollama.com", True),
        ("api.ollama.com", True),
        ("notollama.com", False),
        ("ollama.com.example.org", False),
        (None, False),
    ],
)
def test_the_service_of_ollama_is_known(name: str | None, cloud: bool) -> None:
    assert is_cloud(name) is cloud
