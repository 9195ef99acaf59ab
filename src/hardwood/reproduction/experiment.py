"""Everything that is measured, in the order in which it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hardwood.datasets import load_dataset
from hardwood.metrics import adversarial_accuracy
from hardwood.reproduction.methods import METHODS, OTHERS_IN_OVERVIEW, Method
from hardwood.reproduction.pieces import Piece, Progress, Record, Results, do_pieces
from hardwood.reproduction.protocol import Score, Table, plan_folds
from hardwood.reproduction.published import DEPTH, EPSILON, read_published
from hardwood.reproduction.studies import (
    QUICK_GROWTH,
    RHO_TABLES,
    WHOLE_GROWTH,
    GrowthPlan,
    plan_column_orders,
    plan_growth,
    plan_rho,
    plan_transfer,
)

RESULTS = "results.json"
_NOT_BUNDLED = {"climate-model-simulation", "cylinder-bands", "planning-relax"}
_RHOS = tuple(round(0.1 * step, 1) for step in range(11))
_QUICK_RHOS = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class MethodScore:
    """What one method scored on one table, beside what the paper printed."""

    folds: list[Record]
    accuracy: Score
    adversarial: Score
    published: Score
    fit_seconds: float
    authors_code: tuple[float, float] | None = None  # the least and the greatest mean of the authors' own code

    @property
    def difference(self) -> float:
        """Adversarial accuracy less the published one."""
        return self.adversarial.mean - self.published.mean


@dataclass(frozen=True)
class Outcome:
    """What an experiment found.

    Attributes
    ----------
    tables, methods : sequences
        What was compared.
    skipped : dict
        Why a table of the paper is missing, by its name.
    scores : dict of MethodScore
        By (table, method).
    column_orders : dict of lists
        Adversarial accuracies with the columns in other orders, by (table, method): for scores that differ from the
        published ones.
    growth, rho, transfer : lists of records
        Times to fit at various sizes; accuracies at various rho; and on each table, accuracies under attacks on another
        method's tree.
    """

    tables: list[Table]
    methods: tuple[Method, ...]
    skipped: dict[str, str]
    scores: dict[tuple[str, str], MethodScore]
    column_orders: dict[tuple[str, str], list[float]]
    growth: list[Record]
    rho: list[Record]
    transfer: list[Record]


@dataclass
class Experiment:
    """The paper's experiments, as pieces of work whose results are kept in a folder.

    Parameters
    ----------
    folder : path
        Where results are kept. An experiment that is run again in the same folder does only what is missing there, or
        what a change of version, data or settings has made obsolete.
    tables : sequence of str, optional
        Data sets of the paper; by default all fourteen, or with `quick` those that need no network.
    quick : bool, default=False
        Fewer tables and smaller studies.
    jobs : int, default=1
        Folds at a time.

    Examples
    --------
    >>> from pathlib import Path
    >>> from hardwood.reproduction import Experiment
    >>> outcome = Experiment(Path("reproduction"), ["haberman"], quick=True).run()  # doctest: +SKIP
    >>> outcome.scores["haberman", "groot"].adversarial  # doctest: +SKIP
    Score(mean=0.7223691168693814, deviation=0.0458...)
    """

    folder: Path
    tables: Sequence[str] | None = None
    quick: bool = False
    jobs: int = 1
    methods: tuple[Method, ...] = METHODS
    growth: GrowthPlan = field(init=False)

    def __post_init__(self) -> None:
        published = read_published()
        if self.tables is None:
            self.tables = [name for name in published if not (self.quick and name in _NOT_BUNDLED)]
        for name in self.tables:
            if name not in published:
                raise ValueError(f"tables: {name!r} is not in the paper; expected some of {', '.join(published)}")
        self.growth = QUICK_GROWTH if self.quick else WHOLE_GROWTH

    def run(self, progress: Progress | None = None) -> Outcome:
        """Do what is missing.

        Parameters
        ----------
        progress : callable, optional
            Called with the effort spent and the effort in all, in this run.

        Returns
        -------
        Outcome
        """
        tables, skipped = self._load_tables()
        results = Results(self.folder / RESULTS)
        folds = {(t.name, m.key): plan_folds(t, m) for t in tables for m in self.methods}
        rhos = _QUICK_RHOS if self.quick else _RHOS
        rho = {
            (t.name, r): p for t in tables if t.name in RHO_TABLES for r, p in zip(rhos, plan_rho(t, rhos), strict=True)
        }
        learners = (*self.methods, *OTHERS_IN_OVERVIEW)
        growth = plan_growth(self.growth, learners)
        transfer = {table.name: plan_transfer(table, self.methods) for table in tables}
        by_fold = [piece for pieces in (*folds.values(), *transfer.values()) for piece in pieces]
        planned = [*by_fold, *rho.values(), *growth]
        do_pieces(planned, results, jobs=self.jobs, progress=progress)

        def recall(pieces: Sequence[Piece]) -> list[Record]:
            return do_pieces(pieces, results, jobs=self.jobs)

        scores = self._summarise({key: recall(pieces) for key, pieces in folds.items()})
        orders = {
            (table.name, method.key): [r["adversarial_accuracy"] for r in recall(plan_column_orders(table, method))]
            for table in tables
            for method in self.methods
            if abs(scores[table.name, method.key].difference) > method.bar
        }
        keys = [(size, learner) for size in self.growth.sizes for learner in learners]
        return Outcome(
            tables=tables,
            methods=self.methods,
            skipped=skipped,
            scores=scores,
            column_orders=orders,
            growth=[
                {"method": m.key, "varies": v, "rows": n, "features": f, "depth": d, **record}
                for ((v, n, f, d), m), record in zip(keys, recall(growth), strict=True)
            ],
            rho=[{"table": t, "rho": r, **recall([piece])[0]} for (t, r), piece in rho.items()],
            transfer=[{"table": name, **_average(recall(pieces))} for name, pieces in transfer.items()],
        )

    def _load_tables(self) -> tuple[list[Table], dict[str, str]]:
        assert self.tables is not None
        tables, skipped = [], {}
        for name in self.tables:
            try:
                data = load_dataset(name)
            except (OSError, ValueError) as error:
                skipped[name] = str(error)
            else:
                tables.append(Table(name, np.asarray(data.data, dtype=np.float64), np.asarray(data.target)))
        if not tables:
            raise ValueError(f"none of the tables can be had: {'; '.join(skipped.values())}")
        return tables, skipped

    def _summarise(self, folds: dict[tuple[str, str], list[Record]]) -> dict[tuple[str, str], MethodScore]:
        published = read_published()
        return {
            (table, method): MethodScore(
                folds=records,
                accuracy=Score.over([r["accuracy"] for r in records]),
                adversarial=Score.over([r["adversarial_accuracy"] for r in records]),
                published=Score(*published[table].scores[method]),
                fit_seconds=float(np.mean([r["fit_seconds"] for r in records])),
                authors_code=published[table].authors_code.get(method),
            )
            for (table, method), records in folds.items()
        }


def _average(records: Sequence[Record]) -> Record:
    return {key: float(np.mean([record[key] for record in records])) for key in records[0]}


def compile_methods() -> None:
    """Fit and attack one tree of each method, so that no clock sees the compiler."""
    X = np.linspace(0.0, 1.0, 40).reshape(20, 2)
    y = np.arange(20) % 3 % 2
    for learner in (*METHODS, *OTHERS_IN_OVERVIEW):
        model = learner.make(2, DEPTH).fit(X, y)
        model.predict(X)
        adversarial_accuracy(model, X, y, EPSILON)
