"""What the service takes at most, refused before anything is sent.

Source: OpenAI's OpenAPI document 2.3.0 (`Metadata`, `CreateAssistantRequest.tool_resources`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from genai_host.errors import ValidationError

MOST_PAIRS = 16
"""Of metadata, those that the agents add counted."""

LONGEST_KEY = 64
LONGEST_VALUE = 512
"""In characters."""

MOST_FILES = 20
"""That the code interpreter of an assistant or a thread may have."""


def checked_metadata(metadata: Mapping[str, str], whose: str) -> dict[str, str]:
    """The same. Raises `ValidationError` for what the service would refuse.

    whose   what it is of, for the error
    """
    if len(metadata) > MOST_PAIRS:
        raise ValidationError(
            f"the metadata of {whose} has {len(metadata)} pairs, and at most {MOST_PAIRS} may be",
            path="$.metadata",
            hint="the execution options of a definition are one pair of them",
        )
    for key, value in metadata.items():
        path = f"$.metadata.{key[:LONGEST_KEY]}"
        if len(key) > LONGEST_KEY:
            raise ValidationError(
                f"a key in the metadata of {whose} has {len(key)} characters, and at most "
                f"{LONGEST_KEY} may be",
                path=path,
            )
        if len(value) > LONGEST_VALUE:
            raise ValidationError(
                f"{key} in the metadata of {whose} has {len(value)} characters, and at most "
                f"{LONGEST_VALUE} may be",
                path=path,
            )
    return dict(metadata)


def checked_files(ids: Sequence[str], whose: str) -> list[str]:
    """The ids of files for the code interpreter. Raises `ValidationError` for too many."""
    if len(ids) > MOST_FILES:
        raise ValidationError(
            f"{whose} has {len(ids)} files for the code interpreter, and at most {MOST_FILES} "
            "may be",
            path="$.code_interpreter_file_ids",
        )
    return list(ids)
