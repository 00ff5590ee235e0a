"""The join: pure, so it is tested with data alone."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, strategies as st
from stand_ins import UnaskedProvider

from genai_host import Config
from genai_host.api import STANDARD, Dialect, DialectEndpoint, Model, Offering, Operation
from genai_host.api.models import EXTRA_BODY_SCHEMA
from genai_host.catalog.catalog import Catalog, ModelChoice
from genai_host.catalog.join import Candidate, ProviderInfo, UnopenedProvider
from genai_host.config import ModelConfig
from genai_host.errors import ConfigurationError, NoRoute
from genai_host.util.names import our_distributions


class _Dialect(Dialect):  # type: ignore[type-arg]  # never called: only its data is joined
    prepare_request = extract_result = None  # type: ignore[assignment]


def dialect(name: str, **fields: object) -> _Dialect:
    dialect: _Dialect = type(name, (_Dialect,), {"name": name, **fields})()
    return dialect


CHAT = dialect(
    "chat-wire",
    capabilities=frozenset({"stream", "tools", "schema", "images"}),
    parameters={"temperature": STANDARD["temperature"], "top_p": STANDARD["top_p"]},
    variant={"max_tokens": "max_tokens", "role": "system"},
    endpoint=DialectEndpoint(path="/chat", stream_path="/stream", query={"v": "1"}),
)
OTHER = dialect("other-wire", capabilities=frozenset({"stream", "tools"}))
EMBED = dialect("embed-wire", operation="embed")
COUNT = dialect(
    "chat-count",
    operation="count",
    models_of="chat-wire",
    endpoint=DialectEndpoint(path="/count"),
    parameters={"top_p": {"type": "number"}},
)
COMPLETE = dialect(
    "complete-wire",
    operation="complete",
    models_of="chat-wire",
    parameters={
        "temperature": {"type": "number"},
        "top_p": {"type": "number"},
        "echo": {"type": "boolean"},
    },
)
DIALECTS = {each.name: each for each in (CHAT, OTHER, EMBED, COUNT, COMPLETE)}

CLAUDE = Model(
    "claude",
    dialects=["other-wire", "chat-wire"],
    aliases=["sonnet"],
    capabilities={"tools", "schema"},
    window=1000,
    at={"first": "claude-1"},
)
LLAMA = Model("llama", dialects=["chat-wire"], capabilities={"tools"}, window=500)
E5 = Model("e5", dialects=["embed-wire"], operation="embed", at={"first": "e5-small"})

FIRST = ProviderInfo(
    "first",
    "first",
    serves={
        "chat-wire": DialectEndpoint(),
        "other-wire": DialectEndpoint(),
        "embed-wire": DialectEndpoint(),
    },
    default_models={"chat": "claude", "embed": "e5"},
)
SECOND = ProviderInfo(
    "second", "second", serves={"chat-wire": DialectEndpoint(path="/v2", unsupported={"schema"})}
)


def catalog(
    *providers: ProviderInfo, offerings: tuple[Offering, ...] = (),
    models: tuple[Model, ...] = (CLAUDE, LLAMA, E5), prefer: tuple[str, ...] = (),
    absent: dict[str, str] | None = None, aliases: dict[str, str] | None = None,
    configs: dict[str, ModelConfig] | None = None,
) -> Catalog:  # fmt: skip
    config = Config(aliases=aliases or {}, model_configs=configs or {})
    providers = providers or (FIRST, SECOND)
    return Catalog(models, offerings, DIALECTS, providers, absent, prefer, config.configurations)


def served(name: str, type: str = "", **fields: Any) -> ProviderInfo:
    """A provider; it serves what `FIRST` does."""
    return ProviderInfo(name, type or name, **{"serves": FIRST.serves, **fields})


def ways(candidates: list[Candidate]) -> list[tuple[str, str]]:
    return [(candidate.provider, candidate.dialect) for candidate in candidates]


def places(candidates: list[Candidate]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((candidate.provider, candidate.id) for candidate in candidates))


def refused(joined: Catalog, *args: Any, **more: Any) -> NoRoute:
    with pytest.raises(NoRoute) as caught:
        joined.resolve(*args, **more)
    return caught.value


def claude_at(provider: str, **fields: Any) -> tuple[Offering, ...]:
    return (Offering("claude", provider, "c", **fields),)


BOTH = [("first", "other-wire"), ("first", "chat-wire")]
LLAMA_AT_SECOND = Offering("llama", "second", "llama-3")


@pytest.mark.parametrize(
    ("reason", "unreachable", "state"),
    [("", False, "works"), ("no key", False, "needs"), ("no answer", True, "unreachable")],
)
def test_the_state_of_a_provider_is_its_routes(reason: str, unreachable: bool, state: str) -> None:
    provider = evolve(FIRST, unavailable_reason=reason, unreachable=unreachable)
    assert provider.state == state
    assert catalog(provider, models=(CLAUDE,)).matrix()[0].state == state


class TestNames:
    def test_a_declared_name_wins_and_so_does_an_alias(self) -> None:
        for name in ("claude", "sonnet"):
            assert {each.model.name for each in catalog().resolve(name)} == {"claude"}

    @pytest.mark.parametrize(("declared", "name"), [
        ("first/x@first+chat-wire", "first/x@first+chat-wire"),
        ("claude@20260101", "claude@20260101"),
        ("claude@20260101", "claude@20260101@first"),
    ])  # fmt: skip
    def test_a_declared_name_may_look_like_anything_else(self, declared: str, name: str) -> None:
        odd = Model(declared, ["chat-wire"], at={"first": "odd"})
        assert catalog(models=(odd,)).resolve(name)[0].id == "odd"

    def test_a_model_at_an_instance_and_in_a_dialect(self) -> None:
        both = catalog(offerings=claude_at("second"))
        assert {each.provider for each in both.resolve("claude")} == {"first", "second"}
        assert {each.provider for each in both.resolve("claude@second")} == {"second"}
        assert ways(catalog().resolve("claude@first+chat-wire")) == [("first", "chat-wire")]

    @pytest.mark.parametrize("id", ["x", "org/x", "x:7b", "a@b", "arn:aws:b:1:model/x.v1:0", "/p"])
    def test_an_id_is_passed_through_to_an_instance(self, id: str) -> None:
        for name, provider in ((f"second/{id}", None), (f"{id}@second", None), (id, "second")):
            [match] = catalog().resolve(name, provider)
            assert (match.id, match.provider, match.dialect) == (id, "second", "chat-wire")
            assert catalog().resolve(match.name) == [match]

    def test_a_passed_id_that_is_offered_is_the_declared_model(self) -> None:
        [match] = catalog(offerings=(LLAMA_AT_SECOND,)).resolve("second/llama-3")
        assert match.model is LLAMA

    def test_a_passed_id_goes_by_the_dialect_whose_pattern_fits(self) -> None:
        patterns = {"chat-wire": "gpt-*", "other-wire": "claude-*"}
        serves = {name: DialectEndpoint(model_ids=each) for name, each in patterns.items()}
        both = catalog(served("both", serves=serves))
        assert ways(both.resolve("both/claude-9")) == [("both", "other-wire")]
        assert ways(both.resolve("both/gpt-9")) == [("both", "chat-wire")]
        assert "no common dialect" in str(refused(both, "both/llama"))

    def test_an_unknown_name_suggests_near_ones(self) -> None:
        error = refused(catalog(), "clawde")
        assert (error.suggestions, "did you mean claude" in error.hint) == (("claude",), True)
        assert refused(catalog(aliases={"speedy": "claude"}), "speedi").suggestions == ("speedy",)
        models = tuple(Model(f"claude-{number}", ["chat-wire"]) for number in range(4))
        error = refused(catalog(models=models), "claude")
        assert len(error.suggestions) == 3
        assert f"did you mean {' or '.join(error.suggestions)}?" in error.hint

    def test_item_6_a_model_is_suggested_for_a_model_and_never_what_failed(self) -> None:
        """Neither a provider, nor the alias by which it was called."""
        for name, aliases in (("frist", {}), ("quick", {"quick": "quik"}), ("zzz", {})):
            error = refused(catalog(aliases=aliases), name)
            assert error.suggestions == ()
            assert "did you mean" not in error.hint

    def test_an_unknown_provider_suggests_near_ones_or_what_to_install(self) -> None:
        assert refused(catalog(), "claude", "frist").suggestions == ("first",)
        hint = refused(catalog(), "claude", "bedrock").hint
        assert "genai-host install genai-vendor-bedrock" in hint

    @pytest.mark.parametrize(("name", "text"), [
        ("claude@bedrock", "unknown provider 'bedrock'"),
        ("claude@bedrock+chat-wire", "unknown provider 'bedrock'"),
        ("quick@bedrock", "unknown provider 'bedrock'"),
        ("stranger@bedrock", "unknown model 'stranger@bedrock'"),
        ("claude-x@bedrock", "unknown model 'claude-x@bedrock'"),
        ("bedrock/stranger", "unknown model 'bedrock/stranger'"),
    ])  # fmt: skip
    def test_a_name_at_an_absent_provider_says_what_to_install(self, name: str, text: str) -> None:
        error = refused(catalog(aliases={"quick": "claude"}), name)
        assert str(error) == text
        assert error.hint.endswith("genai-host install genai-vendor-bedrock")

    @pytest.mark.parametrize(("name", "provider"), [
        ("claude@mine", None),
        ("stranger@mine", None),
        ("mine/stranger", None),
        ("claude", "mine"),
    ])  # fmt: skip
    def test_a_provider_whose_type_is_absent_says_so(self, name: str, provider: str | None) -> None:
        error = refused(catalog(absent={"mine": "no plugin brings x"}), name, provider)
        assert "the provider 'mine' cannot run: no plugin brings x" in str(error)

    @pytest.mark.parametrize("name", ["x@A b", "../x", "x; rm/y", "\x1b[0m/x", "x@"])
    def test_what_no_plugin_can_be_called_is_in_no_command(self, name: str) -> None:
        for args in ((name,), ("claude", name)):
            _, _, plugin = refused(catalog(), *args).hint.partition("genai-host install ")
            assert plugin in ("", "adds one")

    def test_where_nobody_is_a_vendors_plugin_is_named(self) -> None:
        for name in ("llama", "stranger", None):
            hint = refused(Catalog([Model("llama", dialects=["chat-wire"])], [], {}, []), name).hint
            assert "install a provider with genai-host install: genai-vendor-" in hint

    def test_only_plugins_that_are_not_here_are_named(self) -> None:
        vendors = [each for each in our_distributions() if each.startswith("genai-vendor-")]
        here = [served(each.removeprefix("genai-vendor-"), serves={}) for each in vendors]
        for present, expected in ((here[1:], [vendors[0]]), (here, [])):
            hint = refused(Catalog([], [], {}, present), "nothing-like-it").hint
            assert [each for each in vendors if each in hint] == expected
            assert hint.startswith("list models: genai-host models")

    def test_a_name_at_one_provider_is_not_looked_for_at_another(self) -> None:
        assert "is at first, not at second" in str(refused(catalog(), "claude@first", "second"))

    @given(st.text(min_size=1))
    def test_any_name_is_resolved_or_refused(self, name: str) -> None:
        try:
            catalog().explain(name)
        except NoRoute as error:
            assert error.hint


def _second(name: str, **fields: Any) -> ProviderInfo:
    return served(name, "second", serves=SECOND.serves, **fields)


class TestJoin:
    @pytest.mark.parametrize(("joined", "name", "expected"), [
        pytest.param(
            catalog(offerings=(LLAMA_AT_SECOND,)),
            "llama",
            [("second", "llama-3")],
            id="who offers a model may be a third",
        ),
        pytest.param(
            catalog(_second("a"), _second("b"), offerings=(Offering("llama", "b", "llama-b"),)),
            "llama",
            [("b", "llama-b")],
            id="an offering may name an instance",
        ),
        pytest.param(
            catalog(served("mine", "first", models={"claude": "my-deployment"})),
            "claude",
            [("mine", "my-deployment")],
            id="the id of the user for a model wins",
        ),
        pytest.param(
            catalog(_second("mine", models={"own": "/m/own.gguf"})),
            "own",
            [("mine", "/m/own.gguf")],
            id="a user may name a model that nobody declared",
        ),
        pytest.param(
            catalog(offerings=(Offering("nova", "second", "nova-1"),)),
            "nova",
            [("second", "nova-1")],
            id="an offering of an undeclared model is a model",
        ),
        pytest.param(
            catalog(offerings=claude_at("second"), prefer=("second",)),
            "claude",
            [("second", "c"), ("first", "claude-1")],
            id="the preference of the user comes first",
        ),
        pytest.param(
            catalog(offerings=claude_at("second")),
            "claude",
            [("first", "claude-1"), ("second", "c")],
            id="without it the order of the model",
        ),
    ])  # fmt: skip
    def test_where_it_is_and_by_which_id(self, joined: Catalog, name: str, expected: Any) -> None:
        assert places(joined.resolve(name)) == expected
        assert {each.model.name for each in joined.resolve(name)} == {name}

    def test_dialects_are_in_the_order_of_the_model_unless_an_offering_narrows_them(self) -> None:
        assert ways(catalog().resolve("claude")) == BOTH
        narrow = claude_at("first", dialects=["chat-wire"])
        assert ways(catalog(FIRST, offerings=narrow).resolve("claude")) == BOTH[1:]

    def test_what_runs_comes_before_what_does_not_at_the_same_preference(self) -> None:
        broken = served("a", "first", unavailable_reason="no key: set X")
        candidates = catalog(broken, FIRST).explain("claude")
        assert [candidate.runs for candidate in candidates] == [True, True, False, False]

    def test_an_offering_may_name_a_dialect_that_the_model_does_not(self) -> None:
        """A place may have one for all of its models; the offering says which is best."""
        own = Offering("llama", "first", "l", dialects=["other-wire", "chat-wire"])
        candidates = catalog(FIRST, offerings=(own,)).resolve("llama")
        assert ways(candidates) == BOTH
        assert {each.capabilities for each in candidates} == {frozenset({"stream", "tools"})}

    def test_capabilities_are_those_of_model_and_dialect_less_what_is_lacking(self) -> None:
        candidates = catalog(offerings=claude_at("second", unsupported={"tools"})).resolve("claude")
        assert {(each.provider, each.dialect): set(each.capabilities) for each in candidates} == {
            ("first", "other-wire"): {"stream", "tools"},
            ("first", "chat-wire"): {"stream", "tools", "schema"},
            ("second", "chat-wire"): {"stream"},
        }

    def test_an_undeclared_model_is_taken_to_do_what_its_dialect_can(self) -> None:
        [match] = catalog().resolve("second/new")
        assert match.capabilities == {"stream", "tools", "images"}

    @pytest.mark.parametrize(
        ("offered", "role"), [({}, "serve"), ({"role": "offering"}, "offering")]
    )
    def test_variants_are_merged_from_all(self, offered: dict[str, str], role: str) -> None:
        own = {"chat-wire": {"max_tokens": "model", "role": "model"}}
        model = Model("m", ["chat-wire"], variant=own)
        provider = served("p", serves={"chat-wire": DialectEndpoint(variant={"role": "serve"})})
        offering = Offering("m", "p", "id", variant=offered)
        [match] = catalog(provider, models=(model,), offerings=(offering,)).resolve("m")
        assert match.variant == {"max_tokens": "model", "role": role}

    def test_parameters_are_the_dialects_with_those_of_provider_and_model(self) -> None:
        model = Model("m", ["chat-wire"], parameters={"top_p": False}, at={"p": "id"})
        own = DialectEndpoint(parameters={"min_p": {"type": "number"}})
        [match] = catalog(served("p", serves={"chat-wire": own}), models=(model,)).resolve("m")
        assert set(match.parameters) == {"temperature", "min_p"}

    def test_how_a_dialect_is_served_is_filled_up_with_the_dialects_own(self) -> None:
        [first] = catalog().resolve("claude@first+chat-wire")
        assert (first.serve.path, first.serve.query) == ("/chat", {"v": "1"})
        [second] = catalog().resolve("second/x")
        own = {"chat-wire": DialectEndpoint(stream_path="/own")}
        [third] = catalog(served("third", serves=own)).resolve("third/x")
        paths = [(each.serve.path, each.serve.stream_path) for each in (first, second, third)]
        assert paths == [("/chat", "/stream"), ("/v2", None), ("/chat", "/own")]

    @pytest.mark.parametrize(("offered", "window"), [(None, 1000), (200, 200), (5000, 1000)])
    def test_the_window_is_the_smaller_one(self, offered: int | None, window: int) -> None:
        offerings = claude_at("second", window=offered)
        for provider, expected in ((SECOND, window), (evolve(SECOND, window=100), 100)):
            [match] = catalog(provider, offerings=offerings).resolve("claude")
            assert match.window == expected

    def test_nothing_is_changed_by_resolving(self) -> None:
        joined = catalog(offerings=(LLAMA_AT_SECOND,))
        before = joined.matrix()
        for name in ("second/x", "x@first", "claude"):
            joined.resolve(name)
        assert joined.matrix() == before


class TestReasons:
    def why(self, joined: Catalog, name: str) -> list[str]:
        return [reason for each in joined.explain(name) for reason in each.reasons]

    def test_a_provider_that_does_not_offer_it(self) -> None:
        assert "second does not offer llama" in self.why(catalog(), "llama")

    def test_a_provider_that_is_said_to_have_it_and_is_not_there(self) -> None:
        """After those that are there; the matrix has those alone."""
        joined = catalog(offerings=(Offering("llama", "ollama", "l:3"), *claude_at("elsewhere")))
        assert self.why(joined, "llama")[-1] == (
            "no installed plugin declares the provider 'ollama': "
            "genai-host install genai-vendor-ollama"
        )
        with pytest.raises(NoRoute, match=r"llama cannot run: .* genai-vendor-ollama$"):
            joined.resolve("llama")
        assert "ollama" not in {each.provider for each in joined.matrix()}
        assert "first does not offer llama" in str(refused(joined, "llama@first"))
        assert {each.provider for each in joined.resolve("claude")} == {"first"}

    def test_item_6_a_misspelt_provider_of_a_declaration_is_told(self) -> None:
        misspelt = Model("m", ["chat-wire"], at={"frist": "m"})
        joined = catalog(offerings=(Offering("llama", "secnd", "l:3"),), models=(LLAMA, misspelt))
        for name, wrong, suggested in (("llama", "secnd", "second"), ("m", "frist", "first")):
            near = f"no installed plugin declares the provider '{wrong}'; did you mean {suggested}?"
            assert self.why(joined, name)[-1] == near

    def test_item_6_a_misspelt_dialect_is_told(self) -> None:
        misspelt = Model("m", ["chat-wier"], at={"first": "m", "p": "m"})
        assert self.why(catalog(models=(misspelt,)), "m")[0] == (
            "no common dialect: m supports chat-wier, first serves chat-wire, other-wire, "
            "embed-wire; did you mean chat-wire?"
        )
        provider = served("p", serves={"chat-wier": DialectEndpoint()})
        assert self.why(catalog(provider, models=(misspelt,)), "m")[0] == (
            "the dialect chat-wier is not installed; did you mean chat-wire?"
        )

    def test_no_shared_dialect_names_both_sides(self) -> None:
        only_other = served("p", serves={"other-wire": DialectEndpoint()})
        joined = catalog(only_other, offerings=(Offering("llama", "p", "l"),))
        reason = "no common dialect: llama supports chat-wire, p serves other-wire"
        assert self.why(joined, "llama") == [reason]

    def test_a_dialect_that_is_not_installed_says_what_to_install(self) -> None:
        install = {
            "new-wire": "genai-models-open",
            "odd-wire": "genai-dialect-of-nobody",
            "openai-chat": "",
        }
        serves = {name: DialectEndpoint(install=each) for name, each in install.items()}
        model = Model("m", [*install], at={"p": "m"})
        assert self.why(catalog(served("p", serves=serves), models=(model,)), "m") == [
            "the dialect new-wire is not installed: genai-host install genai-models-open",
            "the dialect odd-wire is not installed",
            "the dialect openai-chat is not installed: genai-host install genai-wire-openai",
        ]

    def test_what_a_provider_lacks_is_the_reason(self) -> None:
        why = "no key: set P_API_KEY"
        error = refused(catalog(served("p", "first", unavailable_reason=why)), "claude")
        assert error.reasons == (why,)
        assert why in str(error)

    def test_a_model_whose_files_are_missing_is_refused_and_others_run(self) -> None:
        missing = {"claude-1": "the weights are missing: pull them"}
        joined = catalog(evolve(FIRST, unavailable_models=missing))
        assert "pull them" in str(refused(joined, "claude"))
        assert joined.resolve("e5", operation="embed")

    def test_a_model_for_another_operation(self) -> None:
        assert "e5 is a model for embed, not chat" in str(refused(catalog(), "e5"))

    def test_item_4_the_reasons_of_several_providers_are_in_the_message(self) -> None:
        infos = [served(n, "first", unavailable_reason=f"no key {n}") for n in "abcd"]
        error = refused(catalog(*infos[:2]), "claude")
        assert str(error) == "claude cannot run: a: no key a; b: no key b"
        assert error.reasons == ("a: no key a", "b: no key b")
        error = refused(catalog(*infos), "claude")
        assert str(error).endswith("; c: no key c; and 1 more")
        assert "routes explain claude" in error.hint

    def test_the_matrix_has_every_model_at_every_provider(self) -> None:
        pairs = {(each.model.name, each.provider) for each in catalog().matrix()}
        assert pairs == {(m, p) for m in ("claude", "llama", "e5") for p in ("first", "second")}
        assert all(candidate.runs or candidate.reasons for candidate in catalog().matrix())
        assert {each.state for each in catalog().matrix()} == {"works", "not offered"}


CHAT_CLAUDE: dict[Operation, str] = {"chat": "claude"}


class TestDefaults:
    def test_the_default_of_a_named_provider(self) -> None:
        assert catalog().resolve(None, "first")[0].model is CLAUDE
        assert catalog().resolve(None, "first", "embed")[0].model is E5

    def test_without_a_name_the_first_that_may_be_chosen_and_runs(self) -> None:
        stand_in = served("a", default_models={"chat": "a/x"}, automatic=False)
        keyless = served("b", "first", default_models=CHAT_CLAUDE, unavailable_reason="no key")
        candidates = catalog(stand_in, keyless, FIRST).resolve(None)
        assert {candidate.provider for candidate in candidates} == {"first"}
        assert catalog(stand_in, FIRST).resolve(None, "a")[0].provider == "a"
        other = served("z", "first", default_models=CHAT_CLAUDE)
        assert catalog(FIRST, other, prefer=("z",)).resolve(None)[0].provider == "z"

    def test_item_2_a_key_makes_no_service_the_default(self) -> None:
        keyed = evolve(FIRST, takes_key=True)
        free = evolve(FIRST, name="z", free=True)
        assert {each.provider for each in catalog(keyed, free).resolve(None)} == {"z"}
        error = refused(catalog(keyed), None)
        assert "no default model for chat" in str(error)
        assert error.hint == "to use claude@first: genai-host config default model claude@first"
        assert refused(catalog(evolve(keyed, unavailable_reason="no key")), None).hint != error.hint
        lacking = evolve(free, unavailable_reason="no weights")
        hint = refused(catalog(keyed, lacking), None, None, "embed").hint
        assert hint == "to use e5@first: genai-host config default embed e5@first"

    def test_item_2_what_is_configured_comes_before_what_is_free(self) -> None:
        chosen = evolve(FIRST, takes_key=True, configured=True)
        free = evolve(FIRST, name="a", free=True)
        everything = catalog(evolve(FIRST, name="b"), free, chosen)
        names = [each.provider for each in everything.resolve(None) if each.dialect == "chat-wire"]
        assert {name: everything.defaults.why(name) for name in names} == {
            "first": "provider first is configured",
            "a": "it is free",
            "b": "provider b needs no key",
        }
        assert names == ["first", "a", "b"]

    def test_item_2_a_preferred_service_is_chosen(self) -> None:
        free = evolve(FIRST, name="a", free=True)
        preferring = catalog(free, evolve(FIRST, takes_key=True), prefer=("first",))
        assert preferring.resolve(None)[0].provider == "first"
        assert preferring.defaults.why("first") == "first is in defaults.provider_order"

    def test_no_default_is_an_error_that_says_what_to_do(self) -> None:
        error = refused(catalog(SECOND), None)
        assert "no default model for chat" in str(error)
        assert "--model" in error.hint
        assert "the provider second has no default model" in str(refused(catalog(), None, "second"))

    def test_a_default_that_is_elsewhere_spoils_no_other(self) -> None:
        joined = catalog(served("a", default_models={"chat": "claude@first"}), FIRST)
        assert joined.resolve(None)[0].provider == "first"
        assert "is at first, not at a" in str(refused(joined, None, "a"))


def test_candidates_are_plain_data() -> None:
    [candidate] = catalog(offerings=(LLAMA_AT_SECOND,)).resolve("llama")
    assert candidate == catalog(offerings=(LLAMA_AT_SECOND,)).resolve("llama")[0]
    json.dumps(candidate.parameters)


class _Speaker(UnaskedProvider):
    serves = {"chat-wire": DialectEndpoint()}


class TestAsked:
    """What a provider says of itself is a stranger's word."""

    def test_what_it_says_is_taken_over(self) -> None:
        class Sound(_Speaker):
            default_models = {"chat": "claude"}

            def unavailable_reason(self) -> str | None:
                return "a key"

            def unavailable_models(self) -> dict[str, str]:
                return {"claude-1": "no weights"}

        info = ProviderInfo("p", "first", models={"own": "id"}, automatic=False)
        assert info.asked(Sound()) == evolve(
            info,
            serves={"chat-wire": DialectEndpoint()},
            default_models=CHAT_CLAUDE,
            unavailable_reason="a key",
            unavailable_models={"claude-1": "no weights"},
        )

    @pytest.mark.parametrize(("name", "value", "reason"), [
        ("serves", ["chat-wire"], " must be a mapping of names of dialects to DialectEndpoint"),
        ("serves", {"chat-wire": None}, " must be a mapping"),
        ("serves", {1: DialectEndpoint()}, " must be a mapping"),
        ("serves", None, " must be a mapping"),
        ("default_models", ["claude"], " must be a mapping"),
        ("default_models", {"chat": None}, " must be a mapping"),
        ("unavailable_reason", lambda self: ["a key"], " must be a string, not ['a key']"),
        ("unavailable_reason", lambda self: True, " must be a string, not True"),
        ("unavailable_reason", None, "'NoneType' object is not callable"),
        ("unavailable_reason", lambda self: 1 / 0, "ZeroDivisionError"),
        ("unavailable_reason", lambda self: sys.exit("bye"), "SystemExit: bye"),
        ("unavailable_models", lambda self: ["claude-1"], " must be a mapping"),
        ("unavailable_models", lambda self: {"claude-1": 5}, " must be a mapping"),
        ("unavailable_models", lambda self: None, " must be a mapping"),
    ])  # fmt: skip
    def test_a_wrong_word_spoils_no_other(self, name: str, value: object, reason: str) -> None:
        provider = type("Odd", (_Speaker,), {name: value})()
        odd = ProviderInfo("odd", "odd").asked(provider)
        assert odd.unavailable_reason.startswith("its plugin failed: ")
        assert (f"{name}{reason}" if reason[0] == " " else reason) in odd.unavailable_reason
        joined = catalog(odd, FIRST, offerings=claude_at("odd"))
        assert ways(joined.resolve("claude")) == BOTH
        assert joined.matrix()
        assert "its plugin failed" in str(refused(joined, "claude", "odd"))

    def test_an_exception_that_cannot_be_told_is_named(self) -> None:
        class Mute(Exception):
            def __str__(self) -> str:
                raise RuntimeError

        class Odd(_Speaker):
            def unavailable_reason(self) -> str | None:
                raise Mute

        reason = "its plugin failed: Mute: its message cannot be read (str() failed)"
        assert ProviderInfo("odd", "odd").asked(Odd()).unavailable_reason == reason

    def test_only_providers_of_the_named_model_are_opened(self) -> None:
        opened: list[str] = []

        def ask(known: ProviderInfo) -> ProviderInfo:
            opened.append(known.name)
            return {"first": FIRST, "second": SECOND}[known.name]

        joined = catalog(*(UnopenedProvider(each, ask) for each in (FIRST, SECOND)))
        assert opened == []
        assert {each.provider for each in joined.resolve("claude")} == {"first"}
        assert opened == ["first"]
        assert joined.matrix() == catalog(FIRST, SECOND).matrix()
        assert opened == ["first"]
        assert joined.served["second"].serves == SECOND.serves
        assert opened == ["first", "second"]
        assert not hasattr(joined.served["first"], "nothing")


@pytest.mark.parametrize(("prefer", "first"), [((), "mine"), (("automatic",), "automatic")])
def test_configured_providers_precede_automatic_ones(prefer: tuple[str, ...], first: str) -> None:
    made = catalog(served("automatic"), served("mine", configured=True), prefer=prefer)
    assert made.explain("claude")[0].provider == first


class TestAliases:
    ALIASES = {
        "fast": "claude", "there": "claude@second", "exact": "claude@first+chat-wire",
        "other": "second/some/id", "bare": "some-id",
    }  # fmt: skip

    @pytest.mark.parametrize(("alias", "same"), [
        (["fast"], ["claude"]),
        (["fast", "second"], ["claude", "second"]),
        (["fast@second"], ["claude@second"]),
        (["there"], ["claude@second"]),
        (["there@second"], ["claude@second"]),
        (["exact", "first"], ["claude@first+chat-wire"]),
        (["other"], ["second/some/id"]),
        (["other@second"], ["second/some/id"]),
        (["bare", "first"], ["first/some-id"]),
        (["bare@first"], ["first/some-id"]),
    ])  # fmt: skip
    def test_alias_resolves_to_its_model(self, alias: Any, same: Any) -> None:
        resolving = catalog(aliases=self.ALIASES)
        assert resolving.explain(*alias) == resolving.explain(*same)

    @pytest.mark.parametrize(("name", "at"), [("there@first", None), ("there", "first")])
    def test_one_that_is_elsewhere_is_refused(self, name: str, at: str | None) -> None:
        with pytest.raises(NoRoute, match="is at second, not at first"):
            catalog(aliases=self.ALIASES).explain(name, at)

    def test_a_declared_name_is_redirected(self) -> None:
        """Not where a name says where it is to run, as that is what is recorded; nor where a
        provider has it as its default."""
        resolving = catalog(aliases={"claude": "second/some-id"})
        assert resolving.explain("claude") == resolving.explain("second/some-id")
        assert {each.model.name for each in resolving.resolve("claude@first")} == {"claude"}
        assert resolving.resolve(None, "first")[0].model.name == "claude"


class TestModelConfigurations:
    CONFIGS = {
        "precise": ModelConfig("claude", ("second",), {"temperature": 0, "top_p": 0.5}),
        "short": ModelConfig("precise", (), {"max_tokens": 5, "top_p": 1}),
        "there": ModelConfig("short@first"),
        "one": ModelConfig("first/one"),
        "claude": ModelConfig("claude", ("second",), {"temperature": 1}),
        "sonnet": ModelConfig("claude@first+chat-wire"),
    }

    SHORT = {"temperature": 0, "top_p": 1, "max_tokens": 5}

    @pytest.mark.parametrize(("name", "choice", "parameters"), [
        ("llama", ModelChoice("llama", "", ()), {}),
        ("claude", ModelChoice("claude", "claude", ("second",)), {"temperature": 1}),
        ("short", ModelChoice("claude", "short", ("second",)), SHORT),
        ("there", ModelChoice("claude@first", "there", ("second",)), SHORT),
        ("precise@first+chat-wire", ModelChoice("claude@first+chat-wire", "precise", ("second",)),
         {"temperature": 0, "top_p": 0.5}),
        ("one@first", ModelChoice("first/one", "one", ()), {}),
        ("one@first+chat-wire", ModelChoice("one@first+chat-wire", "one", ()), {}),
        ("claude@first", ModelChoice("claude@first", "", ()), {}),
        ("sonnet", ModelChoice("claude@first+chat-wire", "sonnet", ()), {}),
    ])  # fmt: skip
    def test_one_leads_to_its_model(self, name: str, choice: ModelChoice, parameters: Any) -> None:
        configs = self.CONFIGS
        if name not in ("claude", "sonnet", "claude@first"):
            configs = {key: configs[key] for key in ("precise", "short", "there", "one")}
        chosen = catalog(configs=configs).choice(name)
        assert chosen == choice
        assert chosen.parameters == parameters

    def test_the_providers_that_it_prefers_come_first_and_others_after_them(self) -> None:
        resolving = catalog(prefer=("first",), configs=self.CONFIGS)
        both = [each.provider for each in resolving.explain("precise")]
        assert both.index("second") < both.index("first")
        assert {each.provider for each in resolving.explain("precise", "first")} == {"first"}

    def test_one_that_is_elsewhere_is_refused(self) -> None:
        with pytest.raises(NoRoute, match="is at first, not at second"):
            catalog(configs=self.CONFIGS).choice("there@second")

    def test_circular_configuration_is_an_error(self) -> None:
        configs = {"a": ModelConfig("b"), "b": ModelConfig("a@first")}
        with pytest.raises(ConfigurationError, match="is circular: a of b of a"):
            catalog(configs=configs).choice("a")


class TestCounting:
    COUNTING = evolve(
        SECOND, serves={**SECOND.serves, "chat-count": DialectEndpoint(query={"v": "2"})}
    )

    def test_tokens_are_counted_where_a_dialect_counts_those_of_chat(self) -> None:
        joined = catalog(FIRST, self.COUNTING, offerings=(LLAMA_AT_SECOND,))
        (match,) = joined.resolve("llama", operation="count")
        (chat,) = joined.resolve("llama")
        assert (match.provider, match.dialect, match.operation) == ("second", "chat-count", "count")
        assert (match.id, match.window, match.model) == (chat.id, chat.window, chat.model)
        assert (match.serve.path, match.serve.query) == ("/count", {"v": "2"})
        assert match.variant == chat.variant
        assert match.parameters == {"top_p": STANDARD["top_p"]}

    def test_texts_are_completed_with_the_parameters_of_their_dialect(self) -> None:
        """A parameter of chat can have another meaning; the model may refuse those of both."""
        serves = {**SECOND.serves, "complete-wire": DialectEndpoint(unsupported={"stream"})}
        provider = evolve(SECOND, serves=serves, extra_body={})
        model = evolve(LLAMA, parameters={"temperature": False, "top_p": {"maximum": 1}, "n": {}})
        joined = catalog(provider, models=(model,), offerings=(LLAMA_AT_SECOND,))
        (match,) = joined.resolve("llama", operation="complete")
        assert (match.dialect, match.operation) == ("complete-wire", "complete")
        assert "stream" not in match.capabilities
        assert match.parameters == {
            "top_p": {"maximum": 1},
            "echo": {"type": "boolean"},
            "extra_body": EXTRA_BODY_SCHEMA,
        }
        error = refused(catalog(FIRST), "claude@first+chat-wire", operation="complete")
        assert "first has no text completions for models of chat-wire" in str(error)

    def test_a_dialect_that_counts_is_no_way_to_an_answer(self) -> None:
        joined = catalog(self.COUNTING, offerings=(LLAMA_AT_SECOND,))
        used: dict[Operation, str] = {"chat": "chat-wire", "count": "chat-count"}
        for operation, dialect in used.items():
            candidates = joined.resolve("second/unknown", operation=operation)
            assert ways(candidates) == [("second", dialect)]
        assert "chat-count" not in {each.dialect for each in joined.matrix()}

    def test_another_dialect_may_count_than_the_best_for_chat(self) -> None:
        both = catalog(evolve(FIRST, serves={**FIRST.serves, "chat-count": DialectEndpoint()}))
        assert ways(both.explain("claude")) == BOTH
        assert ways(both.explain("claude", operation="count"))[0] == ("first", "chat-count")
        assert both.resolve(None, operation="count")[0].model is CLAUDE

    def test_where_nobody_counts_it_is_said(self) -> None:
        error = refused(catalog(FIRST), "claude@first+other-wire", operation="count")
        assert "first cannot count tokens of other-wire" in str(error)
        assert error.model
        assert "is a model for embed" in str(refused(catalog(FIRST), "e5", operation="count"))


@pytest.mark.parametrize("order", [("gpt-4o", "gpt-5.4"), ("gpt-5.4", "gpt-4o")])
def test_item_2_a_name_that_is_an_id_as_well_is_that_model(order: tuple[str, str]) -> None:
    """An instance that maps two names to one id: the id is the name of one of them."""
    up = served("up", "first", models=dict.fromkeys(order, "gpt-4o"))
    joined = catalog(up, models=tuple(Model(name, dialects=["chat-wire"]) for name in order))
    for name, model in (
        ("up/gpt-4o", "gpt-4o"),
        ("gpt-4o@up", "gpt-4o"),
        ("up/gpt-5.4", "gpt-5.4"),
    ):
        [match] = joined.resolve(name)
        assert (match.model.name, match.id) == (model, "gpt-4o")
