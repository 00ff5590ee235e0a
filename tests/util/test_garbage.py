"""The garbage collector while a command starts."""

from __future__ import annotations

import gc

from genai_host.util.garbage import pause_collection, resume_collection


def test_a_start_is_not_searched_for_garbage() -> None:
    pause_collection()
    try:
        assert not gc.isenabled()
        frozen = gc.get_freeze_count()
        resume_collection()
        assert gc.isenabled()
        assert gc.get_freeze_count() > frozen
    finally:
        gc.enable()
        gc.unfreeze()


def test_a_collector_that_runs_goes_on_as_before() -> None:
    assert gc.isenabled()
    resume_collection()
    assert gc.isenabled()
    assert not gc.get_freeze_count()
