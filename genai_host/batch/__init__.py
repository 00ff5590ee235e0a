"""Thousands of prompts from a file, and their answers in a file, in the same order.

    done = Batch(host, "prompts.jsonl", "answers.jsonl", Task(model="smollm2"), at_once=8).run()
    print(done.rows, done.failed, done.cost)

rows        lines of the input, read as requests
work        one row and its result, by a host of this process or of an executor's process
journal     results on disk, as they come
batch       the batch as a whole: which rows run, in which order, until when
"""

from genai_host.batch.batch import Batch, Progress
from genai_host.batch.work import Task

__all__ = ["Batch", "Progress", "Task"]
