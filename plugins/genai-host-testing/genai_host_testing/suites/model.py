"""Suite for models: valid names, known dialects, and parameters and variants that these support."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from genai_host.api import Dialect, Model, SchemaValidator
from genai_host.api.dialects import CAPABILITIES
from genai_host.config import Config
from genai_host.host import Host
from genai_host_testing.fake_model import FakeModel
from genai_host_testing.suites.base import PluginSuite, recommended


class ModelSuite(PluginSuite):
    """Suite for a plugin that declares models or offerings.

        class TestMyModels(ModelSuite):
            plugin = my_models

    Attributes:
        beside: Further plugins by name: those with the dialects and the providers of the models,
            and the offered models.
    """

    def test_it_declares_models_or_offers_some(self) -> None:
        declared = self.declared()
        assert declared.models or declared.offerings

    def test_names_and_aliases_resolve_to_the_model(self) -> None:
        with self.host() as host:
            for model in self.declared().models:
                for name in (model.name, *model.aliases):
                    found = host.explain(name, operation=model.operation)
                    assert found, name
                    assert all(each.model == model for each in found), name

    @recommended
    def test_their_names_can_be_typed(self) -> None:
        """`@`, `/` and `+` are separators in user input."""
        for model in self.declared().models:
            for name in (model.name, *model.aliases):
                assert name == name.lower(), name
                assert not set(name) & set("@/+"), name

    def test_their_dialects_are_there(self) -> None:
        with self.host() as host:
            dialects = host.registry.dialects
            for model in self.declared().models:
                assert model.dialects, f"{model.name} declares no dialect"
                for name in model.dialects:
                    assert name in dialects, (
                        f"no plugin declares {name}: add its plugin to `beside`"
                    )
                    assert dialects[name].operation == model.operation, model.name

    def test_their_capabilities_are_known(self) -> None:
        for model in self.declared().models:
            assert model.capabilities <= CAPABILITIES.keys(), model.name
            assert "stream" not in model.capabilities, (
                f"{model.name}: 'stream' is a capability of dialects"
            )
            assert model.operation == "chat" or not model.capabilities, model.name

    def test_their_sizes_fit(self) -> None:
        for model in self.declared().models:
            if model.window is not None and model.max_output is not None:
                assert model.max_output <= model.window, model.name

    def test_their_parameters_are_taken(self) -> None:
        """Parameter schemas are valid; rejected parameters and defaults refer to known ones."""
        with self.host() as host:
            for model in self.declared().models:
                dialects = [host.registry.dialects[name] for name in model.dialects]
                known = {name for dialect in dialects for name in dialect.parameters}
                for name, schema in model.parameters.items():
                    assert schema is not False or name in known, f"{model.name} refuses {name}"
                    SchemaValidator(schema)
                assert model.defaults.keys() <= known | model.parameters.keys(), model.name

    def test_their_usual_values_fit(self) -> None:
        with self.host() as host:
            for model, dialect in self.spoken(host):
                taken = {**dialect.parameters, **model.parameters}
                for name in model.defaults.keys() & taken.keys():
                    assert taken[name] is not False, f"{model.name} refuses {name}"
                    SchemaValidator(taken[name]).check(model.defaults[name])

    def test_their_variants_are_known(self) -> None:
        with self.host() as host:
            for model in self.declared().models:
                assert model.variant.keys() <= set(model.dialects), model.name
            for model, dialect in self.spoken(host):
                variant = model.variant.get(dialect.name, {})
                _must_be_variants(dialect, variant, model.name)

    def test_their_providers_are_there(self) -> None:
        """Offerings use a dialect that their provider serves."""
        with self.host() as host:
            for name, provider in self.places():
                assert provider in host.registry.providers, f"no plugin declares {provider}: {name}"
                found = [each for each in host.catalog.matrix() if each.model.name == name]
                assert any(each.dialect for each in found if each.provider == provider), (
                    f"{name} at {provider}: {[each.reasons for each in found]}"
                )

    def test_offerings_fit_their_models(self) -> None:
        with self.host() as host:
            for offering in self.declared().offerings:
                assert offering.unsupported <= CAPABILITIES.keys(), offering.model
                model = host.catalog.models[offering.model]
                for name in offering.dialects or ():
                    assert name in {*model.dialects, *host.registry.dialects}, offering.model
                for name in offering.dialects or model.dialects:
                    if name in host.registry.dialects:  # the model may use other dialects as well
                        _must_be_variants(
                            host.registry.dialects[name], offering.variant, offering.model
                        )
                if offering.window and model.window:
                    assert offering.window <= model.window, offering.model

    def host(self) -> Host:
        """A host with the plugin; no provider is called."""
        return Host(config=Config(), discovery=self.plugins(somebody=FakeModel()))

    def spoken(self, host: Host) -> Iterator[tuple[Model, Dialect[Any, Any]]]:
        for model in self.declared().models:
            for name in model.dialects:
                yield model, host.registry.dialects[name]

    def places(self) -> Iterator[tuple[str, str]]:
        declared = self.declared()
        for model in declared.models:
            for provider in model.at:
                yield model.name, provider
        for offering in declared.offerings:
            yield offering.model, offering.provider


def _must_be_variants(dialect: Dialect[Any, Any], given: Mapping[str, Any], whose: str) -> None:
    for name in given:
        assert name in dialect.variant, f"{whose}: {dialect.name} has no variant {name}"
