"""Attackers who blank or fill values: rows are asked about with a column more for each such feature."""

from hardwood.ensemble.missing_columns import part_rows
from hardwood.progress import Progress
from hardwood.threat.priced_reach import PricedReach
from hardwood.verification.answers import Answers
from hardwood.verification.asked import Ask, Asked


def show_hidden(asked: Asked, ask: Ask) -> Answers | None:
    """Ask about rows as numbers alone, part by part, where values can be blanked or filled in.

    The solver knows numbers only, so that for its sake missing values are shown wherever they are.
    """
    if isinstance(asked.reach, PricedReach):
        return None
    parts = part_rows(asked.ensemble, asked.matrix, asked.class_index, asked.reach, missing=_may_ask_solver(asked))
    if parts is None:
        return None
    answers, done, progress = Answers.unknown(asked.matrix), 0, asked.settings.progress
    for part in parts:
        one = asked.select(part.rows).with_weight(part.weigh)
        settings = one.settings
        if progress is not None:
            settings = settings._replace(progress=_go_on_from(done, len(asked.matrix), progress))
        # After Ctrl-C the rest gets cheap bounds only.
        clock = one.clock.stop() if answers.interrupted else one.clock
        some = ask(
            one._replace(ensemble=part.ensemble, matrix=part.matrix, reach=part.reach, settings=settings, clock=clock)
        )
        answers = answers.put(part.rows, some._replace(example=part.hide(some.example)))
        done += len(part.rows)
    return answers


def _may_ask_solver(asked: Asked) -> bool:
    return asked.settings.method == "milp" and asked.ensemble.schema.accepts_missing


def _go_on_from(before: int, n_rows: int, progress: Progress) -> Progress:
    """Return a progress that counts the rows of one part after those of the parts before."""
    return lambda done, _: progress(before + done, n_rows)
