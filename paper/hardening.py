"""What hardening (Kantchelian et al., 2016) does to ensembles under the paper's protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from hardwood import HardenedClassifier, verify
from paper.pieces import Piece, Record, describe_table
from paper.protocol import Table, split_folds
from paper.published import DEPTH, EPSILON, FOLDS

TREES = 20
ROUNDS = 10
TABLES = ("breast-cancer", "ionosphere", "parkinsons", "sonar", "spambase", "wine")


def _make_forest() -> Any:
    from sklearn.ensemble import RandomForestClassifier  # slow to import, and the command line need not wait

    return RandomForestClassifier(TREES, max_depth=DEPTH, random_state=1)


def _make_boosting() -> Any:
    from sklearn.ensemble import GradientBoostingClassifier

    return GradientBoostingClassifier(n_estimators=TREES, max_depth=DEPTH, random_state=1)


ENSEMBLES: dict[str, Callable[[], Any]] = {"forest": _make_forest, "boosting": _make_boosting}


def plan_hardening(table: Table, ensemble: str) -> list[Piece]:
    """Return a piece per fold: what an ensemble scores before and after."""

    def harden() -> HardenedClassifier:
        return HardenedClassifier(ENSEMBLES[ensemble](), EPSILON, rounds=ROUNDS, n_jobs=1)

    def score(fold: int) -> Record:
        train, test = split_folds(table)[fold]
        record: Record = {}
        for name, model in (("before", ENSEMBLES[ensemble]()), ("after", harden())):
            model.fit(table.X[train], table.y[train])
            certificate = verify(model, table.X[test], table.y[test], EPSILON, n_jobs=1)
            if certificate.interrupted:
                raise KeyboardInterrupt  # some rows have not been asked about: this is no score
            record |= {
                f"accuracy {name}": float(model.score(table.X[test], table.y[test])),
                f"adversarial {name}": float(np.mean(certificate.status == "robust")),
                f"undecided {name}": int(np.sum(certificate.status == "unknown")),
            }
        return record

    return [
        Piece(
            name=f"hardening/{table.name}/{ensemble}/fold {fold + 1}",
            settings=f"{harden().get_params()} {describe_table(table.X, table.y)}",
            work=partial(score, fold),
            cells=TREES * table.X.size,
        )
        for fold in range(FOLDS)
    ]


@dataclass(frozen=True)
class Hardening:
    """Means over the folds before and after hardening. Rows that are undecided count as vulnerable."""

    accuracy: tuple[float, float]
    adversarial: tuple[float, float]
    undecided: int

    @property
    def gain(self) -> float:
        """How much adversarial accuracy has risen."""
        return self.adversarial[1] - self.adversarial[0]


def weigh_hardening(found: Mapping[tuple[str, str], Sequence[Record]]) -> dict[tuple[str, str], Hardening]:
    """Summarise the records of the folds, by (table, ensemble)."""

    def mean(records: Sequence[Record], what: str) -> tuple[float, float]:
        before, after = (float(np.mean([r[f"{what} {name}"] for r in records])) for name in ("before", "after"))
        return before, after

    return {
        key: Hardening(
            accuracy=mean(records, "accuracy"),
            adversarial=mean(records, "adversarial"),
            undecided=sum(r["undecided before"] + r["undecided after"] for r in records),
        )
        for key, records in found.items()
    }


def list_hardening(found: Mapping[tuple[str, str], Sequence[Record]]) -> list[Record]:
    """Return a record per table, ensemble and fold."""
    return [
        {"table": table, "ensemble": ensemble, "fold": fold, **record}
        for (table, ensemble), records in found.items()
        for fold, record in enumerate(records, start=1)
    ]
