"""Batches: prompts from a file, and their answers in a file, in the same order.

    with Host(retry_policy=RETRY_POLICY) as host:
        done = Batch(host, "prompts.jsonl", "answers.jsonl", Task(model="smollm2")).run()
        print(done.rows, done.failed, done.cost)

- `rows`: lines of the input, read as requests
- `work`: one row and its result, by a host in this process or a process of an executor
- `journal`: results on disk, as they are completed
- `batch`: the batch: which rows run, in which order, and when it stops
"""

from genai_host.batch.batch import Batch, BatchProgress
from genai_host.batch.work import RETRY_POLICY, Task

__all__ = ["RETRY_POLICY", "Batch", "BatchProgress", "Task"]
