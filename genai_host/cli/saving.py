"""`ask --save`: what is given on the command line, as a template."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import click

from genai_host.cli.options import named_texts, named_values


def save_as_template(
    name: str,
    template: str | None,
    variables: tuple[str, ...],
    asked: str,
    *,
    fragments: tuple[str, ...],
    attach: tuple[str, ...],
    schema: Mapping[str, Any] | None,
    model: str | None,
    provider: str | None,
    feature: str | None,
    roles: tuple[str, ...],
    system: str | None,
    params: tuple[str, ...],
    settings: tuple[str, ...],
) -> str:
    """Write what the options of `ask` say, over what another template says; the file.

    Files are kept by their whole paths, since a template is used from anywhere.
    """
    from genai_host.templates import NO_TEMPLATE, Template, read_template, save_template

    base = NO_TEMPLATE if template is None else read_template(template)
    made = Template(
        prompt=asked or base.prompt,
        system=base.system if system is None else system,
        model=model or base.model,
        provider=provider or base.provider,
        feature=feature or base.feature,
        fragments=(*base.fragments, *_whole(fragments)),
        attachments=(*base.attachments, *_whole(attach)),
        schema=base.schema if schema is None else schema,
        variables={**base.variables, **named_texts(variables, "--var")},
        roles={**base.roles, **named_texts(roles, "--role")},
        parameters={**base.parameters, **named_values(params, "--param")},
        settings={**base.settings, **named_values(settings, "--set")},
    )
    if made == NO_TEMPLATE:
        raise click.UsageError('there is nothing to save: genai-host ask --save NAME "..."')
    return save_template(name, made)


def _whole(sources: Sequence[str]) -> list[str]:
    from genai_host.attachments import PIPED, is_address

    return [
        each if each == PIPED or is_address(each) else os.path.abspath(os.path.expanduser(each))
        for each in sources
    ]
