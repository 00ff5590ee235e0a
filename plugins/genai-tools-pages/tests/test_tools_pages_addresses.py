"""No page is read from an address that is not everybody's."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any

import pytest
from genai_tools_pages.addresses import Addresses, is_public, is_usable
from genai_tools_pages.download import Downloader
from genai_tools_pages.process import read

from genai_host.errors import GenaiError, PermissionDenied, ServiceUnavailable, ValidationError
from genai_host_testing.services.page_site import PageSite, redirect, reply

pytestmark = pytest.mark.part

SPELLINGS = [
    "127.0.0.1", "127.1", "0x7f.1", "0x7f000001", "2130706433", "0177.0.0.1", "017700000001",
    "127.255.255.254", "0.0.0.0", "0", "[::]", "[::1]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b::10.0.0.1]",
    "[64:ff9b:1::1]", "[2002:7f00:1::]", "[2002:a00:1::1]", "[2001:0:7f00:1::1]", "localhost",
    "localhost.", "LOCALHOST", "loc%61lhost", "169.254.169.254", "[::ffff:169.254.169.254]",
    "168.63.129.16", "100.100.100.200", "10.0.0.1", "172.16.0.1", "192.168.1.1", "198.18.0.1",
    "224.0.0.1", "240.0.0.1", "255.255.255.255", "[fd00::1]", "[fec0::1]", "[fe80::1]",
    "[fe80::1%25lo]", "[ff02::1]", "[2001:db8::1]", "[3fff::1]", "[5f00::1]",
    "１２７.0.0.1",  # noqa: RUF001 - in wide digits
    "①②⑦.⓪.⓪.①", "127。0。0。1", "ⓛocalhost",
]  # fmt: skip


def reader(addresses: Addresses | None = None) -> Downloader:
    return Downloader(addresses or Addresses(), most=10**6, seconds=20)


@pytest.fixture
def site() -> Iterator[PageSite]:
    with PageSite({"/": reply("<p>secret</p>")}) as site:
        yield site


@pytest.mark.parametrize("host", SPELLINGS)
def test_no_spelling_of_a_private_address_is_read_from(site: PageSite, host: str) -> None:
    with pytest.raises((PermissionDenied, ValidationError, ServiceUnavailable)) as caught:
        read(site.link("/", host), reader(), 20)
    assert "secret" not in caught.value.message
    assert not site.heads


@pytest.mark.parametrize("host", ["127.1", "0x7f.1", "2130706433", "0177.0.0.1", "localhost"])
def test_each_would_lead_there(site: PageSite, host: str) -> None:
    """If the user had said that it may: it is the address that is refused, and not the form."""
    assert read(site.link("/", host), reader(Addresses(is_usable)), 20).text == "secret"


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "10.1.2.3", "::1", "::ffff:10.0.0.1", "fe80::1%2"]
)
@pytest.mark.parametrize("others", [[], ["93.184.215.14"]], ids=["alone", "beside"])
def test_a_name_that_leads_to_one_is_not(address: str, others: list[str]) -> None:
    addresses = Addresses(resolve=lambda host, port: [*others, address])
    message = r"^pages\.example has the address .*, which is not public$"
    with pytest.raises(PermissionDenied, match=message):
        read("http://pages.example/?key=secret", reader(addresses), 20)


def test_a_name_that_nobody_knows_is_told() -> None:
    def unknown(host: str, port: int) -> list[str]:
        raise OSError("no such name")

    with pytest.raises(ServiceUnavailable, match=r"unknown host nowhere\.example"):
        read("http://nowhere.example/a?b=c", reader(Addresses(resolve=unknown)), 20)


PUBLIC = ("93.184.215.14", "8.8.8.8", "2606:2800:21f::1", "64:ff9b::808:808")
PRIVATE = ("127.0.0.1", "10.0.0.1", "fd00::1", "::1", "100.64.0.1")
"""They may be read from if the user says so."""
CREDENTIALS = (
    "169.254.169.254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "fd00:ec2::254", "ff02::1",
)  # fmt: skip
"""A machine's own credentials, and a multicast address: never."""


@pytest.mark.parametrize("address", [*PUBLIC, *PRIVATE, *CREDENTIALS])
def test_what_is_public_and_what_is_usable(address: str) -> None:
    assert is_public(ip_address(address)) is (address in PUBLIC)
    assert is_usable(ip_address(address)) is (address not in CREDENTIALS)


class TestBetweenTwoAnswers:
    """127.0.0.1 stands for a public address here, and 127.0.0.2 for a private one."""

    def addresses(self, *answers: str) -> Addresses:
        self.asked: list[str] = []

        def resolve(host: str, port: int) -> list[str]:
            self.asked.append(host)
            return [answers[min(len(self.asked), len(answers)) - 1]]

        return Addresses(lambda address: str(address) == "127.0.0.1", resolve)

    def test_a_name_is_resolved_once(self, site: PageSite, monkeypatch: pytest.MonkeyPatch) -> None:
        """And what is connected to is what was looked at: no name is looked up after it."""
        looked_up, real = [], socket.getaddrinfo

        def look_up(host: str, *rest: Any) -> Any:
            looked_up.append(host)
            return real(host, *rest)

        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        addresses = self.addresses("127.0.0.1", "127.0.0.2")
        assert read(site.link("/", "turns.example"), reader(addresses), 20).text == "secret"
        assert self.asked == ["turns.example"]
        assert set(looked_up) == {"127.0.0.1"}
        assert f"Host: turns.example:{site.port}\r\n" in site.heads[0]

    def test_each_redirect_is_looked_at_again(self, site: PageSite) -> None:
        site.answers["/there"] = redirect("/")
        addresses = self.addresses("127.0.0.1", "127.0.0.2")
        with pytest.raises(PermissionDenied, match=r"turns\.example has the address 127\.0\.0\.2"):
            read(site.link("/there", "turns.example"), reader(addresses), 20)
        assert len(site.heads) == 1

    @pytest.mark.parametrize(
        "to",
        ["http://127.0.0.2:{0}/", "//127.0.0.2:{0}/", "http://[::1]:{0}/", "http://0x7f.2:{0}"],
    )
    def test_a_redirect_to_a_private_one_is_refused(self, site: PageSite, to: str) -> None:
        site.answers["/there"] = redirect(to.format(site.port))
        addresses = Addresses(lambda address: str(address) == "127.0.0.1")
        with pytest.raises(PermissionDenied):
            read(site.link("/there"), reader(addresses), 20)
        assert len(site.heads) == 1


def test_a_host_with_several_is_read_from_the_first_that_answers(site: PageSite) -> None:
    addresses = Addresses(is_usable, lambda host, port: ["::1", "127.0.0.9", "127.0.0.1"])
    assert read(site.link("/", "many.example"), reader(addresses), 20).text == "secret"


def test_where_none_answers_it_is_told(site: PageSite) -> None:
    addresses = Addresses(is_usable, lambda host, port: ["127.0.0.8", "127.0.0.9"])
    with pytest.raises(GenaiError, match=r"cannot connect to many\.example:\d+"):
        read(site.link("/?key=secret", "many.example"), reader(addresses), 20)
