"""What a provider instance says of itself, looked at before anything is joined with it."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve, field, frozen
from attrs.validators import instance_of, optional

from genai_host.api import Operation, Provider, Serve
from genai_host.api.validators import FILLED_BY_NAME, TEXT, TEXT_BY_NAME, Must, by_name
from genai_host.telling import told

_SERVES = Must(
    "a mapping of names of dialects to Serve", by_name(lambda value: isinstance(value, Serve))
)


@frozen
class Served:
    """What a provider instance says of itself.

    serves           dialects it serves, in its order
    models           model name to its id there, as the user configured
    default_models   for an operation, the model to use where none is named
    automatic        whether it may be chosen where the user names nothing
    missing          why it cannot run; empty if it can
    missing_models   ids of models that cannot run, and why
    window           tokens that prompt and answer share there; None for no bound
    """

    name: str
    type: str
    serves: Mapping[str, Serve] = field(factory=dict, validator=_SERVES)
    models: Mapping[str, str] = field(factory=dict)
    default_models: Mapping[Operation, str] = field(factory=dict, validator=FILLED_BY_NAME)
    automatic: bool = True
    missing: str = field(default="", validator=TEXT)
    missing_models: Mapping[str, str] = field(factory=dict, validator=TEXT_BY_NAME)
    window: int | None = field(default=None, validator=optional(instance_of(int)))

    def asked(self, provider: Provider) -> Served:
        """The same with what the provider says of itself. One that fails to say it, or
        says what it must not, cannot run for that reason."""
        try:
            return evolve(
                self,
                serves=provider.serves,
                default_models=provider.default_models,
                missing=provider.missing() or "",
                missing_models=provider.missing_models(),
                window=provider.window,
            )
        except (Exception, SystemExit) as error:  # noqa: BLE001 - it is that provider's alone
            return evolve(self, missing=f"its plugin failed: {told(error)}")
