"""The tool `corpus__search`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from genai_host.api import Tool, ToolContext, tool
from genai_host.errors import ValidationError
from genai_search_corpus import Settings
from genai_search_corpus.corpus import Corpus

MOST = 50
_LONGEST_QUERY = 1000


class CorpusTools:
    """Provides the method `search` as a tool."""

    def __init__(self, settings: Settings) -> None:
        self._corpus = Corpus(settings)

    def tools(self) -> Sequence[Tool]:
        return [tool(self.search, idempotent=True, timeout=120.0, available_when=self._applies)]

    def search(
        self,
        query: Annotated[str, "what to search for: words, or a question"],
        run: ToolContext,
        region: Annotated[str, "ignored"] = "wt-wt",
        limit: Annotated[int, f"maximum number of results, from 1 to {MOST}"] = 10,
    ) -> str:
        """Search the user's own documents, by words and by meaning. The result is a JSON list of
        passages, each with `title`, `link` and `text`, the best first."""
        if not query.strip() or len(query) > _LONGEST_QUERY:
            raise ValidationError(f"a query must have 1 to {_LONGEST_QUERY} characters")
        if not 1 <= limit <= MOST:
            raise ValidationError(f"limit must be a number from 1 to {MOST}")
        found = self._corpus.search(query, limit, run.limits.check)
        return json.dumps(
            [{"title": each.title, "link": link, "text": each.text} for link, each in found],
            ensure_ascii=False,
        )

    def _applies(self, context: Mapping[str, Any]) -> bool:
        return self._corpus.is_named()
