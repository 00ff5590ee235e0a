"""The suites of the host, for the providers over HTTP and for the models."""

from __future__ import annotations

import genai_vendor_openai

from genai_host.testing.suites import HttpProviderSuite, ModelSuite, SpeaksOpenAIChat


class TestOpenAI(SpeaksOpenAIChat, HttpProviderSuite):
    plugin = genai_vendor_openai
    provider = "openai"
    settings = {"base_url": "{url}/v1"}
    keys = ["OPENAI_API_KEY"]


class TestAzureOpenAI(SpeaksOpenAIChat, HttpProviderSuite):
    plugin = genai_vendor_openai
    provider = "azure-openai"
    settings = {"endpoint": "{url}"}
    keys = ["AZURE_OPENAI_API_KEY"]


class TestModels(ModelSuite):
    plugin = genai_vendor_openai
