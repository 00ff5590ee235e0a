"""The list of words, by the suites that strangers' plugins run."""

from __future__ import annotations

import genai_vendor_wordlist
from genai_vendor_wordlist import WordList

from genai_host_testing.suites import ModelSuite, ModerateDialectSuite


class TestWordList(ModerateDialectSuite):
    dialect = WordList()
    reply = b'{"flagged": true, "categories": {"profanity": 1.0}}'
    flagged = True


class TestWordListModels(ModelSuite):
    plugin = genai_vendor_wordlist
