"""The join: pure, so it is tested with data alone."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from genai_host import Config
from genai_host.api import (
    STANDARD,
    CancelToken,
    Dialect,
    DialectEndpoint,
    Model,
    Offering,
    Provider,
    ProviderReply,
    ProviderRequest,
)
from genai_host.api.models import EXTRA_BODY_SCHEMA
from genai_host.catalog.catalog import Catalog, ModelChoice
from genai_host.catalog.join import Candidate, ProviderInfo, UnopenedProvider
from genai_host.config import ModelConfig
from genai_host.errors import ConfigurationError, NoRoute
from genai_host.util.names import our_distributions


class _Dialect(Dialect):  # type: ignore[type-arg]  # never called: only its data is joined
    prepare_request = extract_result = None  # type: ignore[assignment]


def dialect(name: str, **fields: object) -> _Dialect:
    made: _Dialect = type(name, (_Dialect,), {"name": name, **fields})()
    return made


CHAT = dialect(
    "chat-wire",
    capabilities=frozenset({"stream", "tools", "schema", "images"}),
    parameters={"temperature": STANDARD["temperature"], "top_p": STANDARD["top_p"]},
    variant={"max_tokens": "max_tokens", "role": "system"},
    endpoint=DialectEndpoint(path="/chat", query={"v": "1"}),
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
    *served: ProviderInfo,
    offerings: tuple[Offering, ...] = (),
    models: tuple[Model, ...] = (CLAUDE, LLAMA, E5),
    prefer: tuple[str, ...] = (),
    absent: dict[str, str] | None = None,
    aliases: dict[str, str] | None = None,
    configs: dict[str, ModelConfig] | None = None,
) -> Catalog:
    config = Config(aliases=aliases or {}, model_configs=configs or {})
    served = served or (FIRST, SECOND)
    return Catalog(models, offerings, DIALECTS, served, absent, prefer, config.configurations)


def ways(found: list[Candidate]) -> list[tuple[str, str]]:
    return [(candidate.provider, candidate.dialect) for candidate in found]


@pytest.mark.parametrize(
    ("reason", "unreachable", "state"),
    [("", False, "works"), ("no key", False, "needs"), ("no answer", True, "unreachable")],
)
def test_the_state_of_a_provider_is_that_of_its_routes(
    reason: str, unreachable: bool, state: str
) -> None:
    served = evolve(FIRST, unavailable_reason=reason, unreachable=unreachable)
    assert served.state == state
    found = catalog(served, models=(CLAUDE,)).matrix()[0]
    assert found.state == state


LLAMA_AT_SECOND = Offering("llama", "second", "llama-3")


class TestNames:
    def test_a_declared_name_wins_and_so_does_an_alias(self) -> None:
        for name in ("claude", "sonnet"):
            found = catalog().resolve(name)
            assert {candidate.model.name for candidate in found} == {"claude"}

    def test_a_declared_name_may_look_like_anything_else(self) -> None:
        odd = Model("first/x@first+chat-wire", ["chat-wire"], at={"first": "odd"})
        assert catalog(models=(odd,)).resolve(odd.name)[0].id == "odd"

    def test_a_model_at_an_instance(self) -> None:
        both = catalog(offerings=(Offering("claude", "second", "c"),))
        assert {each.provider for each in both.resolve("claude")} == {"first", "second"}
        assert {each.provider for each in both.resolve("claude@second")} == {"second"}

    def test_a_model_at_an_instance_in_a_dialect(self) -> None:
        assert ways(catalog().resolve("claude@first+chat-wire")) == [("first", "chat-wire")]

    def test_what_stands_after_the_last_at_is_an_instance_only_if_there_is_one(self) -> None:
        vertex = Model("claude@20260101", ["chat-wire"], at={"first": "c"})
        assert catalog(models=(vertex,)).resolve("claude@20260101")[0].id == "c"
        assert catalog(models=(vertex,)).resolve("claude@20260101@first")[0].id == "c"

    @pytest.mark.parametrize("id", ["x", "org/x", "x:7b", "a@b", "arn:aws:b:1:model/x.v1:0", "/p"])
    def test_an_id_is_passed_through_to_an_instance(self, id: str) -> None:
        for name, provider in ((f"second/{id}", None), (f"{id}@second", None), (id, "second")):
            [found] = catalog().resolve(name, provider)
            assert (found.id, found.provider, found.dialect) == (id, "second", "chat-wire")
            assert catalog().resolve(found.name) == [found]

    def test_a_passed_id_that_is_offered_is_the_declared_model(self) -> None:
        [found] = catalog(offerings=(LLAMA_AT_SECOND,)).resolve("second/llama-3")
        assert found.model is LLAMA

    def test_a_passed_id_goes_by_the_dialect_whose_pattern_fits(self) -> None:
        serves = {
            "chat-wire": DialectEndpoint(model_ids="gpt-*"),
            "other-wire": DialectEndpoint(model_ids="claude-*"),
        }
        both = catalog(ProviderInfo("both", "both", serves=serves))
        assert ways(both.resolve("both/claude-9")) == [("both", "other-wire")]
        assert ways(both.resolve("both/gpt-9")) == [("both", "chat-wire")]
        with pytest.raises(NoRoute, match="no common dialect"):
            both.resolve("both/llama")

    def test_an_unknown_name_suggests_near_ones(self) -> None:
        with pytest.raises(NoRoute) as caught:
            catalog().resolve("clawde")
        assert caught.value.suggestions == ("claude",)
        assert "did you mean claude" in caught.value.hint

    def test_at_most_three_names_are_suggested(self) -> None:
        models = tuple(Model(f"claude-{number}", ["chat-wire"]) for number in range(4))
        with pytest.raises(NoRoute) as caught:
            catalog(models=models).resolve("claude")
        near = caught.value.suggestions
        assert len(near) == 3
        assert f"did you mean {' or '.join(near)}?" in caught.value.hint

    def test_item_6_a_model_is_suggested_for_a_model_and_never_what_failed(self) -> None:
        """Neither a provider, nor the alias by which it was called."""
        for name, aliases in (("frist", {}), ("quick", {"quick": "quik"}), ("zzz", {})):
            with pytest.raises(NoRoute) as caught:
                catalog(aliases=aliases).resolve(name)
            assert caught.value.suggestions == ()
            assert "did you mean" not in caught.value.hint

    def test_an_unknown_provider_suggests_near_ones_or_what_to_install(self) -> None:
        with pytest.raises(NoRoute) as caught:
            catalog().resolve("claude", "frist")
        assert caught.value.suggestions == ("first",)
        with pytest.raises(NoRoute) as caught:
            catalog().resolve("claude", "bedrock")
        assert "genai-host install genai-vendor-bedrock" in caught.value.hint

    @pytest.mark.parametrize(
        ("name", "said"),
        [
            ("claude@bedrock", "unknown provider 'bedrock'"),
            ("claude@bedrock+chat-wire", "unknown provider 'bedrock'"),
            ("quick@bedrock", "unknown provider 'bedrock'"),
            ("stranger@bedrock", "unknown model 'stranger@bedrock'"),
            ("claude-x@bedrock", "unknown model 'claude-x@bedrock'"),
            ("bedrock/stranger", "unknown model 'bedrock/stranger'"),
        ],
    )
    def test_a_name_at_a_provider_that_is_not_there_says_what_to_install(
        self, name: str, said: str
    ) -> None:
        with pytest.raises(NoRoute) as caught:
            catalog(aliases={"quick": "claude"}).resolve(name)
        assert str(caught.value) == said
        assert caught.value.hint.endswith("genai-host install genai-vendor-bedrock")

    @pytest.mark.parametrize("name", ["claude@mine", "stranger@mine", "mine/stranger"])
    def test_a_name_at_a_provider_whose_type_is_absent_says_so(self, name: str) -> None:
        with pytest.raises(NoRoute, match="the provider 'mine' cannot run: no plugin brings x"):
            catalog(absent={"mine": "no plugin brings x"}).resolve(name)

    @pytest.mark.parametrize("name", ["x@A b", "../x", "x; rm/y", "\x1b[0m/x", "x@"])
    def test_what_no_plugin_can_be_called_is_in_no_command(self, name: str) -> None:
        for model, provider in ((name, None), ("claude", name)):
            with pytest.raises(NoRoute) as caught:
                catalog().resolve(model, provider)
            _, _, plugin = caught.value.hint.partition("genai-host install ")
            assert plugin in ("", "adds one")

    def test_where_nobody_is_a_vendors_plugin_is_named(self) -> None:
        llama = Model("llama", dialects=["chat-wire"])
        for name in ("llama", "stranger", None):
            with pytest.raises(NoRoute) as caught:
                Catalog([llama], [], {}, []).resolve(name)
            assert "these plugins bring providers: genai-vendor-" in caught.value.hint
            assert caught.value.hint.endswith("; genai-host install adds one")

    def test_only_plugins_that_are_not_here_are_named(self) -> None:
        vendors = [each for each in our_distributions() if each.startswith("genai-vendor-")]
        names = [each.removeprefix("genai-vendor-") for each in vendors]
        here = [ProviderInfo(name, name, serves={}) for name in names]
        for served, expected in ((here[1:], vendors[0]), (here, "")):
            with pytest.raises(NoRoute) as caught:
                Catalog([], [], {}, served).resolve("nothing-like-it")
            named = [each for each in vendors if each in caught.value.hint]
            assert named == ([expected] if expected else [])
            assert caught.value.hint.startswith("list models: genai-host models")

    def test_a_provider_whose_type_is_absent_says_so(self) -> None:
        with pytest.raises(NoRoute, match="no plugin brings x"):
            catalog(absent={"mine": "no plugin brings x"}).resolve("claude", "mine")

    def test_a_name_at_one_provider_is_not_looked_for_at_another(self) -> None:
        with pytest.raises(NoRoute, match="is at first, not at second"):
            catalog().resolve("claude@first", "second")

    @given(st.text(min_size=1))
    def test_any_name_is_resolved_or_refused(self, name: str) -> None:
        try:
            catalog().explain(name)
        except NoRoute as refused:
            assert refused.hint


class TestJoin:
    def test_the_order_is_the_models_own(self) -> None:
        assert ways(catalog().resolve("claude")) == [
            ("first", "other-wire"),
            ("first", "chat-wire"),
        ]

    def test_the_users_preference_comes_first(self) -> None:
        offered = (Offering("claude", "second", "c"),)
        preferring = catalog(offerings=offered, prefer=("second",))
        assert preferring.resolve("claude")[0].provider == "second"
        assert catalog(offerings=offered).resolve("claude")[0].provider == "first"

    def test_what_runs_comes_before_what_does_not_at_the_same_preference(self) -> None:
        broken = ProviderInfo("a", "first", serves=FIRST.serves, unavailable_reason="no key: set X")
        found = catalog(broken, FIRST).explain("claude")
        assert [candidate.runs for candidate in found] == [True, True, False, False]

    def test_who_offers_a_model_may_be_a_third(self) -> None:
        [found] = catalog(offerings=(LLAMA_AT_SECOND,)).resolve("llama")
        assert (found.provider, found.id) == ("second", "llama-3")

    def test_an_offering_may_name_an_instance(self) -> None:
        a, b = (ProviderInfo(name, "second", serves=SECOND.serves) for name in ("a", "b"))
        found = catalog(a, b, offerings=(Offering("llama", "b", "llama-b"),)).resolve("llama")
        assert [(each.provider, each.id) for each in found] == [("b", "llama-b")]

    def test_the_users_own_id_for_a_model_wins(self) -> None:
        mine = ProviderInfo(
            "mine", "first", serves=FIRST.serves, models={"claude": "my-deployment"}
        )
        assert {each.id for each in catalog(mine).resolve("claude")} == {"my-deployment"}

    def test_a_user_may_name_a_model_that_nobody_declared(self) -> None:
        mine = ProviderInfo("mine", "x", serves=SECOND.serves, models={"own": "/m/own.gguf"})
        [found] = catalog(mine).resolve("own")
        assert (found.id, found.provider) == ("/m/own.gguf", "mine")

    def test_an_offering_of_an_undeclared_model_is_a_model(self) -> None:
        [found] = catalog(offerings=(Offering("nova", "second", "nova-1"),)).resolve("nova")
        assert (found.model.name, found.id) == ("nova", "nova-1")

    def test_an_offering_may_narrow_the_dialects(self) -> None:
        narrow = Offering("claude", "first", "c", dialects=["chat-wire"])
        assert ways(catalog(FIRST, offerings=(narrow,)).resolve("claude")) == [
            ("first", "chat-wire")
        ]

    def test_an_offering_may_name_a_dialect_that_the_model_does_not(self) -> None:
        """A place may have one for all of its models; the offering says which is best."""
        own = Offering("llama", "first", "l", dialects=["other-wire", "chat-wire"])
        found = catalog(FIRST, offerings=(own,)).resolve("llama")
        assert ways(found) == [("first", "other-wire"), ("first", "chat-wire")]
        assert {each.capabilities for each in found} == {frozenset({"stream", "tools"})}

    def test_capabilities_are_those_of_model_and_dialect_less_what_is_lacking(self) -> None:
        offered = Offering("claude", "second", "c", unsupported={"tools"})
        found = {
            (each.provider, each.dialect): set(each.capabilities)
            for each in catalog(offerings=(offered,)).resolve("claude")
        }
        assert found == {
            ("first", "other-wire"): {"stream", "tools"},
            ("first", "chat-wire"): {"stream", "tools", "schema"},
            ("second", "chat-wire"): {"stream"},
        }

    def test_an_undeclared_model_is_taken_to_do_what_its_dialect_can(self) -> None:
        [found] = catalog().resolve("second/new")
        assert found.capabilities == {"stream", "tools", "images"}

    def test_variants_are_merged_from_dialect_model_provider_and_offering(self) -> None:
        model = Model(
            "m", ["chat-wire"], variant={"chat-wire": {"max_tokens": "model", "role": "model"}}
        )
        served = ProviderInfo(
            "p", "p", serves={"chat-wire": DialectEndpoint(variant={"role": "serve"})}
        )
        for offered, expected in (({}, "serve"), ({"role": "offering"}, "offering")):
            offering = Offering("m", "p", "id", variant=offered)
            [found] = catalog(served, models=(model,), offerings=(offering,)).resolve("m")
            assert found.variant == {"max_tokens": "model", "role": expected}

    def test_parameters_are_the_dialects_with_those_of_provider_and_model(self) -> None:
        model = Model("m", ["chat-wire"], parameters={"top_p": False}, at={"p": "id"})
        own = {"min_p": {"type": "number"}}
        served = ProviderInfo("p", "p", serves={"chat-wire": DialectEndpoint(parameters=own)})
        [found] = catalog(served, models=(model,)).resolve("m")
        assert set(found.parameters) == {"temperature", "min_p"}

    def test_how_a_dialect_is_served_is_filled_up_with_the_dialects_own(self) -> None:
        [first] = catalog().resolve("claude@first+chat-wire")
        assert (first.serve.path, first.serve.query) == ("/chat", {"v": "1"})
        [second] = catalog().resolve("second/x")
        assert second.serve.path == "/v2"

    @pytest.mark.parametrize(("offered", "window"), [(None, 1000), (200, 200), (5000, 1000)])
    def test_the_window_is_the_smaller_one(self, offered: int | None, window: int) -> None:
        offering = Offering("claude", "second", "c", window=offered)
        [found] = catalog(SECOND, offerings=(offering,)).resolve("claude")
        assert found.window == window
        small = evolve(SECOND, window=100)
        [found] = catalog(small, offerings=(offering,)).resolve("claude")
        assert found.window == 100

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
        joined = catalog(offerings=(Offering("llama", "ollama", "l:3"),))
        assert self.why(joined, "llama")[-1] == (
            "no plugin brings the provider 'ollama': genai-host install genai-vendor-ollama"
        )
        with pytest.raises(NoRoute, match=r"llama cannot run: .* genai-vendor-ollama$"):
            joined.resolve("llama")
        assert "ollama" not in {each.provider for each in joined.matrix()}
        with pytest.raises(NoRoute, match="first does not offer llama"):
            joined.resolve("llama@first")

    def test_item_6_a_misspelt_provider_of_a_declaration_is_told(self) -> None:
        misspelt = Model("m", ["chat-wire"], at={"frist": "m"})
        joined = catalog(offerings=(Offering("llama", "secnd", "l:3"),), models=(LLAMA, misspelt))
        near = "no plugin brings the provider 'secnd'; did you mean second?"
        assert self.why(joined, "llama")[-1] == near
        near = "no plugin brings the provider 'frist'; did you mean first?"
        assert self.why(joined, "m")[-1] == near

    def test_item_6_a_misspelt_dialect_is_told(self) -> None:
        misspelt = Model("m", ["chat-wier"], at={"first": "m"})
        assert self.why(catalog(models=(misspelt,)), "m")[0] == (
            "no common dialect: m supports chat-wier, first serves chat-wire, other-wire, "
            "embed-wire; did you mean chat-wire?"
        )
        served = ProviderInfo("p", "p", serves={"chat-wier": DialectEndpoint()})
        at_p = Model("m", ["chat-wier"], at={"p": "m"})
        assert self.why(catalog(served, models=(at_p,)), "m") == [
            "the dialect chat-wier is not installed; did you mean chat-wire?"
        ]

    def test_one_that_is_not_there_keeps_no_other_from_running(self) -> None:
        joined = catalog(offerings=(Offering("claude", "elsewhere", "c"),))
        assert {each.provider for each in joined.resolve("claude")} == {"first"}

    def test_no_shared_dialect_names_both_sides(self) -> None:
        only_other = ProviderInfo("p", "p", serves={"other-wire": DialectEndpoint()})
        joined = catalog(only_other, offerings=(Offering("llama", "p", "l"),))
        assert self.why(joined, "llama") == [
            "no common dialect: llama supports chat-wire, p serves other-wire"
        ]

    def test_a_dialect_that_is_not_installed_says_what_to_install(self) -> None:
        served = ProviderInfo(
            "p",
            "p",
            serves={
                "new-wire": DialectEndpoint(install="genai-models-open"),
                "odd-wire": DialectEndpoint(install="genai-dialect-of-nobody"),
                "openai-chat": DialectEndpoint(),
            },
        )
        model = Model("m", ["new-wire", "odd-wire", "openai-chat"], at={"p": "m"})
        assert self.why(catalog(served, models=(model,)), "m") == [
            "the dialect new-wire is not installed: genai-host install genai-models-open",
            "the dialect odd-wire is not installed",
            "the dialect openai-chat is not installed: genai-host install genai-wire-openai",
        ]

    def test_what_a_provider_lacks_is_the_reason(self) -> None:
        keyless = ProviderInfo(
            "p", "first", serves=FIRST.serves, unavailable_reason="no key: set P_API_KEY"
        )
        with pytest.raises(NoRoute) as caught:
            catalog(keyless).resolve("claude")
        assert caught.value.reasons == ("no key: set P_API_KEY",)
        assert "no key: set P_API_KEY" in str(caught.value)

    def test_a_model_whose_files_are_missing_is_refused_and_others_run(self) -> None:
        served = ProviderInfo(
            "first",
            "first",
            serves=FIRST.serves,
            unavailable_models={"claude-1": "the weights are missing: pull them"},
        )
        joined = catalog(served)
        with pytest.raises(NoRoute, match="pull them"):
            joined.resolve("claude")
        assert joined.resolve("e5", operation="embed")

    def test_a_model_for_another_operation(self) -> None:
        with pytest.raises(NoRoute, match="e5 is a model for embed, not chat"):
            catalog().resolve("e5")

    def test_item_4_the_reasons_of_several_providers_are_in_the_message(self) -> None:
        infos = [
            ProviderInfo(n, "first", serves=FIRST.serves, unavailable_reason=f"no key {n}")
            for n in "abcd"
        ]
        with pytest.raises(NoRoute) as caught:
            catalog(*infos[:2]).resolve("claude")
        assert str(caught.value) == "claude cannot run: a: no key a; b: no key b"
        assert caught.value.reasons == ("a: no key a", "b: no key b")
        with pytest.raises(NoRoute) as caught:
            catalog(*infos).resolve("claude")
        assert str(caught.value).endswith("; c: no key c; and 1 more")
        assert "routes explain claude" in caught.value.hint

    def test_the_matrix_has_every_model_at_every_provider(self) -> None:
        pairs = {(each.model.name, each.provider) for each in catalog().matrix()}
        assert pairs == {(m, p) for m in ("claude", "llama", "e5") for p in ("first", "second")}
        assert all(candidate.runs or candidate.reasons for candidate in catalog().matrix())


class TestDefaults:
    def test_the_default_of_a_named_provider(self) -> None:
        assert catalog().resolve(None, "first")[0].model is CLAUDE
        assert catalog().resolve(None, "first", "embed")[0].model is E5

    def test_without_a_name_the_first_that_may_be_chosen_and_runs(self) -> None:
        stand_in = ProviderInfo(
            "a", "a", serves=FIRST.serves, default_models={"chat": "a/x"}, automatic=False
        )
        keyless = ProviderInfo(
            "b",
            "first",
            serves=FIRST.serves,
            default_models={"chat": "claude"},
            unavailable_reason="no key",
        )
        found = catalog(stand_in, keyless, FIRST).resolve(None)
        assert {candidate.provider for candidate in found} == {"first"}
        assert catalog(stand_in, FIRST).resolve(None, "a")[0].provider == "a"

    def test_the_preferred_provider_is_asked_first(self) -> None:
        other = ProviderInfo("z", "first", serves=FIRST.serves, default_models={"chat": "claude"})
        assert catalog(FIRST, other, prefer=("z",)).resolve(None)[0].provider == "z"

    def test_item_2_a_key_makes_no_service_the_default(self) -> None:
        keyed = evolve(FIRST, takes_key=True)
        free = evolve(FIRST, name="z", free=True)
        assert {each.provider for each in catalog(keyed, free).resolve(None)} == {"z"}
        with pytest.raises(NoRoute, match="no default model for chat") as caught:
            catalog(keyed).resolve(None)
        assert (
            caught.value.hint == "to use claude@first: genai-host config default model claude@first"
        )
        with pytest.raises(NoRoute) as caught:
            catalog(keyed, evolve(free, unavailable_reason="no weights")).resolve(
                None, None, "embed"
            )
        assert caught.value.hint == "to use e5@first: genai-host config default embed e5@first"

    def test_item_2_what_is_configured_comes_before_what_is_free(self) -> None:
        chosen = evolve(FIRST, takes_key=True, configured=True)
        free = evolve(FIRST, name="a", free=True)
        keyless = evolve(FIRST, name="b")
        everything = catalog(keyless, free, chosen)
        found = [each.provider for each in everything.resolve(None) if each.dialect == "chat-wire"]
        assert found == ["first", "a", "b"]
        assert [everything.defaults.why(name) for name in found] == [
            "provider first is configured",
            "it is free",
            "provider b needs no key",
        ]

    def test_item_2_a_preferred_service_is_chosen(self) -> None:
        keyed = evolve(FIRST, takes_key=True)
        free = evolve(FIRST, name="a", free=True)
        preferring = catalog(free, keyed, prefer=("first",))
        assert preferring.resolve(None)[0].provider == "first"
        assert preferring.defaults.why("first") == "first is in defaults.provider_order"

    def test_no_default_is_an_error_that_says_what_to_do(self) -> None:
        with pytest.raises(NoRoute, match="no default model for chat") as caught:
            catalog(SECOND).resolve(None)
        assert "--model" in caught.value.hint
        with pytest.raises(NoRoute, match="the provider second has no default model"):
            catalog().resolve(None, "second")

    def test_a_default_that_is_elsewhere_spoils_no_other(self) -> None:
        odd = ProviderInfo("a", "a", serves=FIRST.serves, default_models={"chat": "claude@first"})
        assert catalog(odd, FIRST).resolve(None)[0].provider == "first"
        with pytest.raises(NoRoute, match="is at first, not at a"):
            catalog(odd, FIRST).resolve(None, "a")


def test_candidates_are_plain_data() -> None:
    [candidate] = catalog(offerings=(LLAMA_AT_SECOND,)).resolve("llama")
    assert candidate == catalog(offerings=(LLAMA_AT_SECOND,)).resolve("llama")[0]
    json.dumps(candidate.parameters)


class _Speaker(Provider):
    serves = {"chat-wire": DialectEndpoint()}

    def send(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
        raise NotImplementedError

    stream = send


class TestAsked:
    """What a provider says of itself is a stranger's word."""

    def test_what_it_says_is_taken_over(self) -> None:
        class Sound(_Speaker):
            default_models = {"chat": "claude"}

            def unavailable_reason(self) -> str | None:
                return "a key"

            def unavailable_models(self) -> dict[str, str]:
                return {"claude-1": "no weights"}

        served = ProviderInfo("p", "first", models={"own": "id"}, automatic=False).asked(Sound())
        assert served == ProviderInfo(
            "p",
            "first",
            serves={"chat-wire": DialectEndpoint()},
            models={"own": "id"},
            default_models={"chat": "claude"},
            automatic=False,
            unavailable_reason="a key",
            unavailable_models={"claude-1": "no weights"},
        )

    @pytest.mark.parametrize(
        ("name", "value", "reason"),
        [
            (
                "serves",
                ["chat-wire"],
                "serves must be a mapping of names of dialects to DialectEndpoint",
            ),
            ("serves", {"chat-wire": None}, "serves must be a mapping"),
            ("serves", {1: DialectEndpoint()}, "serves must be a mapping"),
            ("serves", None, "serves must be a mapping"),
            ("default_models", ["claude"], "default_models must be a mapping"),
            ("default_models", {"chat": None}, "default_models must be a mapping"),
            (
                "unavailable_reason",
                lambda self: ["a key"],
                "unavailable_reason must be a string, not ['a key']",
            ),
            (
                "unavailable_reason",
                lambda self: True,
                "unavailable_reason must be a string, not True",
            ),
            ("unavailable_reason", None, "'NoneType' object is not callable"),
            ("unavailable_reason", lambda self: 1 / 0, "ZeroDivisionError"),
            ("unavailable_reason", lambda self: sys.exit("bye"), "SystemExit: bye"),
            (
                "unavailable_models",
                lambda self: ["claude-1"],
                "unavailable_models must be a mapping",
            ),
            (
                "unavailable_models",
                lambda self: {"claude-1": 5},
                "unavailable_models must be a mapping",
            ),
            ("unavailable_models", lambda self: None, "unavailable_models must be a mapping"),
        ],
    )
    def test_a_wrong_word_is_why_it_cannot_run_and_spoils_no_other(
        self, name: str, value: object, reason: str
    ) -> None:
        provider = type("Odd", (_Speaker,), {name: value})()
        odd = ProviderInfo("odd", "odd").asked(provider)
        assert odd.unavailable_reason.startswith("its plugin failed: ")
        assert reason in odd.unavailable_reason
        joined = catalog(odd, FIRST, offerings=(Offering("claude", "odd", "c"),))
        assert ways(joined.resolve("claude")) == [("first", "other-wire"), ("first", "chat-wire")]
        assert joined.matrix()
        with pytest.raises(NoRoute, match="its plugin failed"):
            joined.resolve("claude", "odd")

    def test_an_exception_that_cannot_be_told_is_named(self) -> None:
        class Mute(Exception):
            def __str__(self) -> str:
                raise RuntimeError

        class Odd(_Speaker):
            def unavailable_reason(self) -> str | None:
                raise Mute

        served = ProviderInfo("odd", "odd").asked(Odd())
        assert served.unavailable_reason == "its plugin failed: Mute: it cannot say what is wrong"

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


class TestAliases:
    ALIASES = {
        "fast": "claude",
        "there": "claude@second",
        "exact": "claude@first+chat-wire",
        "other": "second/some/id",
        "bare": "some-id",
    }

    @pytest.mark.parametrize(
        ("alias", "provider", "same"),
        [
            ("fast", None, ("claude", None)),
            ("fast", "second", ("claude", "second")),
            ("fast@second", None, ("claude@second", None)),
            ("there", None, ("claude@second", None)),
            ("there@second", None, ("claude@second", None)),
            ("exact", "first", ("claude@first+chat-wire", None)),
            ("other", None, ("second/some/id", None)),
            ("other@second", None, ("second/some/id", None)),
            ("bare", "first", ("first/some-id", None)),
            ("bare@first", None, ("first/some-id", None)),
        ],
    )
    def test_one_is_what_it_stands_for(
        self, alias: str, provider: str | None, same: tuple[str, str | None]
    ) -> None:
        made = catalog(aliases=self.ALIASES)
        assert made.explain(alias, provider) == made.explain(*same)

    @pytest.mark.parametrize(("name", "at"), [("there@first", None), ("there", "first")])
    def test_one_that_is_elsewhere_is_refused(self, name: str, at: str | None) -> None:
        with pytest.raises(NoRoute, match="is at second, not at first"):
            catalog(aliases=self.ALIASES).explain(name, at)

    def test_a_declared_name_is_redirected(self) -> None:
        """Not where a name says where it is to run, as that is what is recorded; nor where a
        provider has it as its default."""
        made = catalog(aliases={"claude": "second/some-id"})
        assert made.explain("claude") == made.explain("second/some-id")
        assert {each.model.name for each in made.resolve("claude@first")} == {"claude"}
        assert made.resolve(None, "first")[0].model.name == "claude"

    def test_one_that_was_meant_is_suggested(self) -> None:
        with pytest.raises(NoRoute) as caught:
            catalog(aliases={"speedy": "claude"}).resolve("speedi")
        assert caught.value.suggestions == ("speedy",)


class TestModelConfigurations:
    CONFIGS = {
        "precise": ModelConfig("claude", ("second",), {"temperature": 0, "top_p": 0.5}),
        "short": ModelConfig("precise", (), {"max_tokens": 5, "top_p": 1}),
        "there": ModelConfig("short@first"),
        "claude": ModelConfig("claude", ("second",), {"temperature": 1}),
        "sonnet": ModelConfig("claude@first+chat-wire"),
    }

    @pytest.mark.parametrize(
        ("name", "model", "configuration", "order", "parameters"),
        [
            ("llama", "llama", "", (), {}),
            ("claude", "claude", "claude", ("second",), {"temperature": 1}),
            (
                "short",
                "claude",
                "short",
                ("second",),
                {"temperature": 0, "top_p": 1, "max_tokens": 5},
            ),
            (
                "there",
                "claude@first",
                "there",
                ("second",),
                {"temperature": 0, "top_p": 1, "max_tokens": 5},
            ),
            (
                "precise@first+chat-wire",
                "claude@first+chat-wire",
                "precise",
                ("second",),
                {"temperature": 0, "top_p": 0.5},
            ),
            ("claude@first", "claude@first", "", (), {}),
            ("sonnet", "claude@first+chat-wire", "sonnet", (), {}),
        ],
    )
    def test_one_is_followed_to_its_model(
        self, name: str, model: str, configuration: str, order: tuple[str, ...], parameters: Any
    ) -> None:
        configs = self.CONFIGS
        if name not in ("claude", "sonnet", "claude@first"):
            configs = {key: configs[key] for key in ("precise", "short", "there")}
        choice = catalog(configs=configs).choice(name)
        assert choice == ModelChoice(model, configuration, order)
        assert choice.parameters == parameters

    def test_the_providers_that_it_prefers_come_first_and_others_after_them(self) -> None:
        made = catalog(prefer=("first",), configs=self.CONFIGS)
        both = [each.provider for each in made.explain("precise")]
        assert both.index("second") < both.index("first")
        assert {each.provider for each in made.explain("precise", "first")} == {"first"}

    def test_one_that_is_elsewhere_is_refused(self) -> None:
        with pytest.raises(NoRoute, match="is at first, not at second"):
            catalog(configs=self.CONFIGS).choice("there@second")

    def test_a_circle_is_told(self) -> None:
        configs = {"a": ModelConfig("b"), "b": ModelConfig("a@first")}
        with pytest.raises(ConfigurationError, match="is circular: a of b of a"):
            catalog(configs=configs).choice("a")


class TestCounting:
    COUNTING = evolve(
        SECOND, serves={**SECOND.serves, "chat-count": DialectEndpoint(query={"v": "2"})}
    )

    def test_tokens_are_counted_where_a_dialect_counts_those_of_chat(self) -> None:
        joined = catalog(FIRST, self.COUNTING, offerings=(LLAMA_AT_SECOND,))
        (found,) = joined.resolve("llama", operation="count")
        (chat,) = joined.resolve("llama")
        assert (found.provider, found.dialect, found.operation) == ("second", "chat-count", "count")
        assert (found.id, found.window, found.model) == (chat.id, chat.window, chat.model)
        assert (found.serve.path, found.serve.query) == ("/count", {"v": "2"})
        assert found.variant == chat.variant
        assert found.parameters == {"top_p": STANDARD["top_p"]}

    def test_texts_are_completed_with_the_parameters_of_their_dialect(self) -> None:
        """A parameter of chat can have another meaning; the model may refuse those of both."""
        served = evolve(
            SECOND,
            serves={**SECOND.serves, "complete-wire": DialectEndpoint(unsupported={"stream"})},
            extra_body={},
        )
        model = evolve(LLAMA, parameters={"temperature": False, "top_p": {"maximum": 1}, "n": {}})
        joined = catalog(served, models=(model,), offerings=(LLAMA_AT_SECOND,))
        (found,) = joined.resolve("llama", operation="complete")
        assert (found.dialect, found.operation) == ("complete-wire", "complete")
        assert "stream" not in found.capabilities
        assert found.parameters == {
            "top_p": {"maximum": 1},
            "echo": {"type": "boolean"},
            "extra_body": EXTRA_BODY_SCHEMA,
        }
        with pytest.raises(NoRoute, match="first has no text completions for models of chat-wire"):
            catalog(FIRST).resolve("claude@first+chat-wire", operation="complete")

    def test_a_dialect_that_counts_is_no_way_to_an_answer(self) -> None:
        joined = catalog(self.COUNTING, offerings=(LLAMA_AT_SECOND,))
        assert ways(joined.resolve("second/unknown")) == [("second", "chat-wire")]
        assert ways(joined.resolve("second/unknown", operation="count")) == [
            ("second", "chat-count")
        ]
        assert "chat-count" not in {each.dialect for each in joined.matrix()}

    def test_another_dialect_may_count_than_the_best_for_chat(self) -> None:
        both = evolve(FIRST, serves={**FIRST.serves, "chat-count": DialectEndpoint()})
        assert ways(catalog(both).explain("claude")) == [
            ("first", "other-wire"),
            ("first", "chat-wire"),
        ]
        assert ways(catalog(both).explain("claude", operation="count"))[0] == (
            "first",
            "chat-count",
        )

    def test_where_nobody_counts_it_is_said(self) -> None:
        with pytest.raises(NoRoute, match="first cannot count tokens of other-wire") as caught:
            catalog(FIRST).resolve("claude@first+other-wire", operation="count")
        assert caught.value.model
        with pytest.raises(NoRoute, match="is a model for embed"):
            catalog(FIRST).resolve("e5", operation="count")

    def test_the_usual_model_is_that_for_chat(self) -> None:
        both = evolve(FIRST, serves={**FIRST.serves, "chat-count": DialectEndpoint()})
        assert catalog(both).resolve(None, operation="count")[0].model is CLAUDE


@pytest.mark.parametrize("order", [("gpt-4o", "gpt-5.4"), ("gpt-5.4", "gpt-4o")])
def test_item_2_a_name_at_a_provider_is_that_model_though_another_has_it_for_an_id(
    order: tuple[str, str],
) -> None:
    """An instance that maps two names to one id: the id is the name of one of them."""
    up = ProviderInfo("up", "first", serves=FIRST.serves, models=dict.fromkeys(order, "gpt-4o"))
    models = [Model(name, dialects=["chat-wire"]) for name in order]
    catalog = Catalog(models, [], DIALECTS, [up])
    [found] = catalog.resolve("up/gpt-4o")
    assert (found.model.name, found.id) == ("gpt-4o", "gpt-4o")
    [found] = catalog.resolve("gpt-4o@up")
    assert found.model.name == "gpt-4o"
    [found] = catalog.resolve("up/gpt-5.4")
    assert (found.model.name, found.id) == ("gpt-5.4", "gpt-4o")
