"""Import of objects that were exported from OpenAI's Assistants, or Azure's, into the host's store.

    report = import_files(host, ["assistants.json", "threads.jsonl"], models={"gpt-4o": "smollm2"})
    print(report.counts, [each.why for each in report.failed])

importer   the whole import, in an order in which each object follows what it needs
reading    JSON files → the objects in them
forms      an object or a message, checked → the form in which the service stores it
keeping    storage of each object, and the report
checks     reasons why an object cannot run or be searched here
"""

from genai_feature_assistants.imports.importer import import_files
from genai_feature_assistants.imports.keeping import Outcome, Report

__all__ = ["Outcome", "Report", "import_files"]
