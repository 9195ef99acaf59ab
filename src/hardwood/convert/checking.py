"""Every import is compared with the model it came from before anybody relies on it."""

from collections.abc import Callable

import numpy as np

from hardwood.ensemble import TreeEnsemble

N_ROWS = 512


def rows_near_thresholds(ensemble: TreeEnsemble, n_rows: int = N_ROWS) -> np.ndarray:
    """Return rows that hug the thresholds: a value is a threshold of its feature or the float next to one."""
    generator = np.random.default_rng(0)
    rows = np.zeros((n_rows, ensemble.schema.n_features))
    for feature in range(ensemble.schema.n_features):
        thresholds = np.unique(ensemble.threshold[ensemble.feature == feature])
        if len(thresholds):
            near = [np.nextafter(thresholds, -np.inf), thresholds, np.nextafter(thresholds, np.inf)]
            rows[:, feature] = generator.choice(np.concatenate(near), n_rows)
    return rows


def check_import(ensemble: TreeEnsemble, predict: Callable[[np.ndarray], np.ndarray], source: str) -> None:
    """Raise ``ValueError`` unless the import predicts what its source predicts, on rows that hug the thresholds."""
    rows = rows_near_thresholds(ensemble)
    wrong = np.flatnonzero(ensemble.predict(rows) != predict(rows))
    if len(wrong):
        raise ValueError(
            f"{source} could not be imported faithfully: the import predicts otherwise on {len(wrong)} of "
            f"{len(rows)} rows near its thresholds. Please report this with the model."
        )
