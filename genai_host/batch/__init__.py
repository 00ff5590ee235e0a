"""Thousands of prompts from a file, and their answers in a file, in the same order.

    done = Batch(host, "prompts.jsonl", "answers.jsonl", Task(model="smollm2"), at_once=8).run()
    print(done.rows, done.failed, done.cost)

rows        lines of a file → what is asked
task        what holds for all rows
work        a row → its result, by a host of this process
elsewhere   the same in a process of an executor
journal     results as they come, on disk
batch       all of it: what is under way, in which order, until when
"""

from genai_host.batch.batch import Batch, Progress
from genai_host.batch.work import Task

__all__ = ["Batch", "Progress", "Task"]
