"""What was exported from OpenAI's Assistants, or Azure's, taken into the host's store.

    report = import_files(host, ["assistants.json", "threads.jsonl"], models={"gpt-4o": "smollm2"})
    print(report.counts, [each.why for each in report.failed])

reading    JSON files → the objects in them
forms      an object, checked → how the service keeps it
messages   the same for messages
keeping    where each goes
importer   all of it, in an order in which what one needs is there
report     what became of each
runnable   what cannot run here, and why
"""

from genai_feature_assistants.imports.importer import import_files
from genai_feature_assistants.imports.keeping import Outcome, Report

__all__ = ["Outcome", "Report", "import_files"]
