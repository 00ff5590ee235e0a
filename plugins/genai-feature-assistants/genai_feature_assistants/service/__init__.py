"""The Assistants API of one host: all that answers under `/v1/assistants`, `/v1/threads` and
`/v1/vector_stores`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genai_wire_openai.server.files import Files

from genai_feature_assistants.service.assistants import Assistants, Resources
from genai_feature_assistants.service.indexing import KIND as FILE, Indexing
from genai_feature_assistants.service.run_states import KIND as RUN, RunStates, RunSteps, Streams
from genai_feature_assistants.service.run_tools import RunTools
from genai_feature_assistants.service.run_work import RunWork
from genai_feature_assistants.service.runs import Runs
from genai_feature_assistants.service.threads import Messages, Threads
from genai_feature_assistants.service.vector_store_files import StoreFiles
from genai_feature_assistants.service.vector_stores import VectorStores

if TYPE_CHECKING:
    from genai_host.api import HostServices


JOBS = "assistants/jobs"
"""Queue of runs, and of files to be indexed."""


class AssistantsService:
    """The Assistants API of a host. One object for each host and process.

    Its worker continues unfinished runs, of this process or of others, until `close`.

    Raises:
        ConfigurationError: The host has no store.
    """

    def __init__(self, host: HostServices) -> None:
        host.store_for()
        self.files = Files(host)
        self._worker = host.jobs(JOBS).worker()
        self.store_files = StoreFiles(host, self.files, self._worker)
        self.vector_stores = VectorStores(host, self.files, self.store_files)
        resources = Resources(self.files, self.vector_stores)
        self.assistants = Assistants(host, resources)
        self.messages = Messages(host, self.files)
        states = RunStates(host, self._worker)
        self.threads = Threads(
            host, self.messages, resources, self.vector_stores, self.store_files, states
        )
        self.steps = RunSteps(host)
        tools = RunTools(host, self.files, self.vector_stores)
        streams = Streams()
        self.runs = Runs(
            host,
            self.assistants,
            self.threads,
            self.messages,
            resources=resources,
            states=states,
            tools=tools,
            worker=self._worker,
            streams=streams,
        )
        work = RunWork(host, states, self.steps, self.messages, tools, self.vector_stores, streams)
        self._worker.start({FILE: Indexing(host, self.files).do, RUN: work.do})

    def close(self) -> None:
        """Stop the work. Other processes continue it."""
        self._worker.close()
