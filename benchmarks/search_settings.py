"""Sweep the settings of the search, one at a time: CPU seconds of distances and decisions that are not easy.

For each setting some values around its default: the least of several turns, as a multiple of the default's time. The
figures are quoted in verification/settings.py.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from hardwood import as_ensemble
from hardwood.threat import ThreatModel
from hardwood.verification import ask
from hardwood.verification.settings import SETTINGS, SearchSettings
from measure import RESULTS, print_table, write_csv
from verify_tasks import RECIPES, load, rows_to_ask

SWEEPS: dict[str, tuple[float, ...]] = {
    "easy_boxes": (25, 50, 200, 400),
    "easy_work": (15_000, 30_000, 120_000, 240_000),
    "move_share": (0.0, 0.25, 0.75),
    "radius_tries": (6, 24),
    "radius_failures": (2, 8),
    "first_advance": (1 / 64, 1 / 4),
    "work_growth": (4.0, 16.0),
    "prices": (2, 4),
    "retry_boxes": (8, 32),
}
REPEATS = 3
# Table, model, the norm of a distance or the radius of a decision, and how many rows.
TASKS = (
    ("diabetes", "forest 100 full", {"norm": np.inf}, 15),
    ("diabetes", "xgboost 50x6", {"norm": 1}, 15),
    ("diabetes", "xgboost 50x6", {"norm": 2}, 15),
    ("wine", "forest 100 full", {"radius": 0.05}, 25),
)

Question = Callable[[SearchSettings], object]


def make_question(table_name: str, recipe: str, norm: float | None, radius: float | None, n_rows: int) -> Question:
    """Return what asks about the rows of one task."""
    table = load(table_name)
    model = next(r for r in RECIPES if r.name == recipe).make().fit(table.X_train, table.y_train)
    X, y = rows_to_ask(table, model, n_rows)
    ensemble = as_ensemble(model)
    reach = ThreatModel("<>" if radius is None else radius).resolve(ensemble.schema, ensemble.labels)
    weight = np.ones(X.shape[1])

    def put(settings: SearchSettings) -> object:
        asked = ask.AskSettings(search=settings)
        if norm is None:
            return ask.decide(ensemble, X, y, reach, asked)
        return ask.nearest(ensemble, X, y, reach, norm, weight, asked)

    return put


def clock(question: Question, settings: SearchSettings) -> float:
    """Return the least CPU seconds of several turns."""
    seconds = []
    for _ in range(REPEATS):
        start = time.process_time()
        question(settings)
        seconds.append(time.process_time() - start)
    return min(seconds)


def main(only: str | None) -> None:
    questions = {
        f"{table}, {recipe}, {limits}": make_question(table, recipe, limits.get("norm"), limits.get("radius"), n_rows)
        for table, recipe, limits, n_rows in TASKS
    }
    for question in questions.values():
        question(SETTINGS)  # compiles
    usual = {name: clock(question, SETTINGS) for name, question in questions.items()}
    records = []
    for setting, values in SWEEPS.items():
        if only is not None and only != setting:
            continue
        for value in values:
            change = partial(SETTINGS._replace, **{setting: value})
            ratio = {name: clock(question, change()) / usual[name] for name, question in questions.items()}
            records.append({"setting": setting, "value": value, **ratio})
    lines = []
    for record in records:
        setting, value, *ratios = record.values()
        lines.append([setting, f"{value:g}", *(f"{ratio:.2f}" for ratio in ratios)])
    print_table(["setting", "value", *questions], lines)
    write_csv(RESULTS / "search_settings.csv", records)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=SWEEPS)
    main(parser.parse_args().only)
