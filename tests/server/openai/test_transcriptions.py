"""`/v1/audio/transcriptions`: a form with a recording, sent to a service that has them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from openai_form import Api, gate_api

from genai_host.api import File
from genai_host.errors import NoRoute
from genai_host_testing.fake_service import FakeService, json_reply, reply
from genai_host_testing.internal.fixtures import MakeHost

pytestmark = pytest.mark.part

AUDIO = b"RIFF\x00\xff secret recording"
USAGE = {"type": "tokens", "input_tokens": 7, "output_tokens": 2}
VERBOSE = {"text": "hello", "language": "english", "segments": [{"id": 0}], "usage": USAGE}
SUBTITLES = b"1\n00:00:00,000 --> 00:00:01,000\nhello\n"


@pytest.fixture
def api(make_host: MakeHost, service: FakeService) -> Iterator[Api]:
    service.replies = [json_reply(VERBOSE)]
    config = {"aliases": {"ears": "gate/m"}}
    models = {"gpt-4o-mini": "small"}
    settings = {"default_transcription_model": "whisper"}
    with gate_api(make_host, service, config, models, settings=settings) as api:
        yield api


def post(api: Api, *fields: tuple[str, str], model: str = "gate/m", path: str = "/v1") -> Any:
    return api.client.post(
        f"{api.url}{path}/audio/transcriptions", data=[("model", model), *fields],
        files={"file": ("a b.wav", AUDIO)}, timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize(("model", "path", "id"), [
    ("gate/m", "/v1", b"m"),
    ("ears", "/v1", b"m"),
    ("gpt-4o-mini@gate", "", b"small"),  # known as a model for chat
    ("ignored", "/openai/deployments/gate/m", b"m"),
])  # fmt: skip
def test_a_recording(api: Api, service: FakeService, model: str, path: str, id: bytes) -> None:
    fields = [
        ("language", "en"), ("temperature", "0.5"), ("response_format", "verbose_json"),
        ("timestamp_granularities[]", "word"), ("timestamp_granularities[]", "segment"),
        ("vad_filter", "true"),
    ]  # fmt: skip
    reply = post(api, *fields, model=model, path=path)
    assert reply.status_code == 200, reply.text
    assert reply.json() == VERBOSE
    [sent] = service.requests
    assert sent.path == "/audio/transcriptions"
    kind = sent.headers["content-type"]
    assert kind.startswith("multipart/form-data; boundary=")
    parts = sent.body.split(b"--" + kind.partition("=")[2].encode())
    written = {part.partition(b'name="')[2].partition(b'"')[0]: part for part in parts[1:-1]}
    assert written[b"file"].endswith(AUDIO + b"\r\n")
    assert b'filename="a b.wav"' in written[b"file"]
    texts = [part.partition(b"\r\n\r\n")[2].strip() for part in parts[1:-1]][:-1]
    assert sorted(texts) == sorted([id, *(value.encode() for _, value in fields)])


@pytest.mark.parametrize(("form", "body", "kind"), [
    ("text", b"hello\n", "text/plain"),
    ("text", b"{laughs} hello", "text/plain"),
    ("text", b'{"title": "no answer"}', "text/plain"),
    ("srt", SUBTITLES, "text/plain"),
    ("vtt", b"WEBVTT\n\n", "text/vtt"),
])  # fmt: skip
def test_a_text(api: Api, service: FakeService, form: str, body: bytes, kind: str) -> None:
    service.replies = [reply(body, headers={"content-type": "text/plain"})]
    response = post(api, ("response_format", form))
    assert (response.status_code, response.content) == (200, body)
    assert response.headers["content-type"].partition(";")[0] == kind


def test_a_service_without_a_format(api: Api, service: FakeService) -> None:
    assert post(api, ("response_format", "text")).text == "hello"
    assert post(api, ("response_format", "srt")).status_code == 502


@pytest.mark.parametrize(("fields", "param"), [
    ([("model", "")], "model"),
    ([("stream", "true")], "stream"),
    ([("temperature", "warm")], "temperature"),
    ([("response_format", "mp3")], "response_format"),
])  # fmt: skip
def test_invalid_fields_are_refused(
    api: Api, service: FakeService, fields: Any, param: str
) -> None:
    reply = post(api, *fields)
    assert reply.status_code == 400
    error = reply.json()["error"]
    assert param in f"{error['param']} {error['message']}"
    assert not service.requests


def test_an_empty_recording_is_refused(api: Api) -> None:
    reply = api.client.post(
        f"{api.url}/v1/audio/transcriptions", data={"model": "gate/m"},
        files={"file": ("a.wav", b"")}, timeout=60,
    )  # fmt: skip
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "file")


def test_the_header_of_the_form_replaces_others(make_host: MakeHost, service: FakeService) -> None:
    headers = {"content-type": "application/json"}
    service.replies = [json_reply(VERBOSE)]
    with gate_api(make_host, service, settings={"headers": headers}) as api:
        assert post(api).status_code == 200
    assert service.requests[0].headers["content-type"].startswith("multipart/form-data; boundary=")


def test_other_models_are_refused(api: Api) -> None:
    reply = post(api, model="fake")
    assert reply.status_code == 404
    assert "does not transcribe" in reply.json()["error"]["message"]


def test_an_error_of_the_service_and_the_log_lack_the_recording(
    api: Api, service: FakeService, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    service.replies = [json_reply({"error": {"message": "no speech"}}, 400)]
    reply = post(api)
    assert (reply.status_code, reply.json()["error"]["message"]) == (400, "no speech")
    assert "secret recording" not in caplog.text


def test_python(api: Api) -> None:
    transcription = api.host.transcribe(File(AUDIO, name="a.wav"), parameters={"language": "en"})
    assert (transcription.text, transcription.usage.input_tokens, transcription.cost) == (
        "hello", 7, None,
    )  # fmt: skip
    assert transcription.route is not None
    assert transcription.route.model == "gate/whisper"
    with pytest.raises(NoRoute, match="does not transcribe"):
        api.host.transcribe(File(AUDIO, name="a.wav"), model="fake")
