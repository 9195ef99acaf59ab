"""What the command says of how far it is."""

from __future__ import annotations

from hardwood.cli.messages import ProgressLines


def test_an_estimate_is_of_this_part_and_waits_until_it_means_something() -> None:
    """A clock that had run through the ceiling said "about 454494 s left" when the first row was attacked."""
    now = 0.0
    lines = ProgressLines("Ceiling...", "Attacking...", clock=lambda: now)
    assert lines.begins_part(0, 300)
    now = 20.0
    assert not lines.begins_part(150, 300)
    assert lines.describe() == "Ceiling... 50% done, about 20 s left"
    assert lines.begins_part(0, 20_000)
    now = 22.0
    assert not lines.begins_part(1, 20_000)
    assert lines.describe() == "Attacking... 0% done"
    now = 30.0
    lines.begins_part(10_000, 20_000)
    assert lines.describe() == "Attacking... 50% done, about 10 s left"
    now = 39.0
    lines.begins_part(19_000, 20_000)
    assert lines.describe() == "Attacking... 95% done, about 1 s left"


def test_a_part_of_as_many_steps_begins_where_they_start_over() -> None:
    lines = ProgressLines("a", "b")
    assert [lines.begins_part(done, 4) for done in (0, 2, 4, 1, 1, 3)] == [True, False, False, True, False, False]
    assert lines.notice == "b"
    assert lines.begins_part(0, 9)
    assert lines.notice == "b"  # the last notice is for all that follows


def test_what_was_there_at_the_start_took_no_time() -> None:
    now = 0.0
    lines = ProgressLines("Measuring...", clock=lambda: now)
    lines.begins_part(90, 100)
    now = 8.0
    lines.begins_part(98, 100)
    assert lines.describe() == "Measuring... 98% done, about 2 s left"
