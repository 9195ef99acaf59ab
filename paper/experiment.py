"""Everything that is measured, in the order in which it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hardwood import evaluate, load_dataset, transfer_attack
from paper.black_box import (
    QUICK_BLACK_BOX,
    WHOLE_BLACK_BOX,
    Attacker,
    BlackBoxPlan,
    find_toolbox,
    list_attackers,
    plan_black_box,
)
from paper.hardening import ENSEMBLES, plan_hardening
from paper.hardening import TABLES as HARDENING_TABLES
from paper.methods import (
    EXACT_HARDENING,
    GREEDY,
    HARDENED_TREES,
    L0_HARDENING,
    METHODS,
    REFINED,
    Learner,
    Method,
)
from paper.pieces import Piece, Progress, Record, Results, do_pieces
from paper.protocol import Score, Table, plan_ceilings, plan_folds
from paper.published import DEPTH, EPSILON, read_published
from paper.studies import (
    QUICK_GROWTH,
    QUICK_HARDENING,
    RHO_TABLES,
    WHOLE_GROWTH,
    WHOLE_HARDENING,
    GrowthPlan,
    Size,
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
class LearnerScore:
    """What one learner scored on one table."""

    folds: list[Record]
    accuracy: Score
    adversarial: Score
    fit_seconds: float


@dataclass(frozen=True)
class MethodScore(LearnerScore):
    """What one method scored on one table, beside what the paper printed."""

    published: Score
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
    refined : dict of LearnerScore
        Of refined trees, which are not in the paper, by (table, learner).
    ceilings : dict of float
        By table, the mean over the folds of what no classifier can exceed under attack, on the test rows.
    column_orders : dict of lists
        Adversarial accuracies with the columns in other orders, by (table, method): for scores that differ from the
        published ones.
    growth, rho, transfer : lists of records
        Times to fit at various sizes; accuracies at various rho; and on each table, accuracies under attacks on another
        method's tree.
    black_box : dict of lists of records
        What attackers who cannot see the trees find, fold by fold, by (table, attacker).
    without_toolbox : str or None
        Why some of these attackers are missing.
    hardening : dict of lists of records
        Scores of ensembles before and after hardening, fold by fold, by (table, ensemble).
    """

    tables: list[Table]
    methods: tuple[Method, ...]
    skipped: dict[str, str]
    scores: dict[tuple[str, str], MethodScore]
    refined: dict[tuple[str, str], LearnerScore]
    ceilings: dict[str, float]
    column_orders: dict[tuple[str, str], list[float]]
    growth: list[Record]
    rho: list[Record]
    transfer: list[Record]
    black_box: dict[tuple[str, Attacker], list[Record]]
    without_toolbox: str | None
    hardening: dict[tuple[str, str], list[Record]]


@dataclass(frozen=True)
class _Plan:
    """The pieces of each study, by what they are about."""

    folds: dict[tuple[str, str], list[Piece]]
    refined: dict[tuple[str, str], list[Piece]]
    ceilings: dict[str, list[Piece]]
    transfer: dict[str, list[Piece]]
    rho: dict[tuple[str, float], Piece]
    growth: dict[tuple[str, Size], Piece]
    black_box: dict[tuple[str, Attacker], list[Piece]]
    hardening: dict[tuple[str, str], list[Piece]]

    @property
    def pieces(self) -> list[Piece]:
        """All of them."""
        studies = (self.folds, self.refined, self.ceilings, self.transfer, self.black_box, self.hardening)
        lists = (pieces for study in studies for pieces in study.values())
        return [*(piece for pieces in lists for piece in pieces), *self.rho.values(), *self.growth.values()]


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
    >>> from paper.experiment import Experiment
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
    hardening_growth: GrowthPlan = field(init=False)
    black_box: BlackBoxPlan = field(init=False)

    def __post_init__(self) -> None:
        published = read_published()
        if self.tables is None:
            self.tables = [name for name in published if not (self.quick and name in _NOT_BUNDLED)]
        for name in self.tables:
            if name not in published:
                raise ValueError(f"tables: {name!r} is not in the paper; expected some of {', '.join(published)}")
        self.growth = QUICK_GROWTH if self.quick else WHOLE_GROWTH
        self.hardening_growth = QUICK_HARDENING if self.quick else WHOLE_HARDENING
        self.black_box = QUICK_BLACK_BOX if self.quick else WHOLE_BLACK_BOX

    @property
    def hardening_learners(self) -> tuple[Learner, ...]:
        """What is timed of hardening. The exact search takes half a minute to compile: too long to be quick."""
        return (L0_HARDENING,) if self.quick else (EXACT_HARDENING, L0_HARDENING)

    def compile_kernels(self) -> None:
        """Fit and attack one model of each kind, so that no clock sees the compiler."""
        X = np.linspace(0.0, 1.0, 40).reshape(20, 2)
        y = np.arange(20) % 3 % 2
        for learner in (*self.methods, *REFINED, GREEDY, *self.hardening_learners):
            learner.make(2, DEPTH).fit(X, y)
        tree = METHODS[0].make(2, DEPTH).fit(X, y)
        evaluate(tree, X, y, EPSILON)
        transfer_attack(tree, X, y, EPSILON)

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
        without_toolbox = find_toolbox()
        plan = self._plan(tables, has_toolbox=without_toolbox is None)
        results = Results(self.folder / RESULTS)
        do_pieces(plan.pieces, results, jobs=self.jobs, progress=progress)

        def recall(pieces: Sequence[Piece]) -> list[Record]:
            return do_pieces(pieces, results, jobs=self.jobs)

        scores = self._summarise({key: recall(pieces) for key, pieces in plan.folds.items()})
        orders = {
            (table.name, method.key): [r["adversarial_accuracy"] for r in recall(plan_column_orders(table, method))]
            for table in tables
            for method in self.methods
            if abs(scores[table.name, method.key].difference) > method.bar
        }
        return Outcome(
            tables=tables,
            methods=self.methods,
            skipped=skipped,
            scores=scores,
            refined={key: LearnerScore(**_average_folds(recall(pieces))) for key, pieces in plan.refined.items()},
            ceilings={name: _average(recall(pieces))["ceiling"] for name, pieces in plan.ceilings.items()},
            column_orders=orders,
            growth=[
                {"method": key, "varies": v, "rows": n, "features": f, "depth": d, **recall([piece])[0]}
                for (key, (v, n, f, d)), piece in plan.growth.items()
            ],
            rho=[{"table": t, "rho": r, **recall([piece])[0]} for (t, r), piece in plan.rho.items()],
            transfer=[{"table": name, **_average(recall(pieces))} for name, pieces in plan.transfer.items()],
            black_box={key: recall(pieces) for key, pieces in plan.black_box.items()},
            without_toolbox=without_toolbox,
            hardening={key: recall(pieces) for key, pieces in plan.hardening.items()},
        )

    def _plan(self, tables: Sequence[Table], has_toolbox: bool) -> _Plan:
        """Return all pieces that are known beforehand."""
        rhos = _QUICK_RHOS if self.quick else _RHOS
        with_rho = [table for table in tables if table.name in RHO_TABLES]
        attacked = [table for table in tables if table.name in self.black_box.tables]
        hardened = [table for table in tables if table.name in HARDENING_TABLES and not self.quick]
        return _Plan(
            folds={(t.name, m.key): plan_folds(t, m) for t in tables for m in self.methods},
            # One fit: a search takes as long as all others together.
            refined={(t.name, learner.key): plan_folds(t, learner, repeats=1) for t in tables for learner in REFINED},
            ceilings={table.name: plan_ceilings(table) for table in tables},
            transfer={t.name: plan_transfer(t, self.methods) for t in tables},
            rho={(t.name, r): p for t in with_rho for r, p in zip(rhos, plan_rho(t, rhos), strict=True)},
            growth=plan_growth(self.growth, (*self.methods, GREEDY))
            | plan_growth(self.hardening_growth, self.hardening_learners, HARDENED_TREES),
            black_box={
                (table.name, attacker): plan_black_box(table, self.methods, self.black_box, attacker)
                for table in attacked
                for attacker in list_attackers(self.black_box, has_toolbox)
            },
            hardening={(t.name, ensemble): plan_hardening(t, ensemble) for t in hardened for ensemble in ENSEMBLES},
        )

    def _load_tables(self) -> tuple[list[Table], dict[str, str]]:
        assert self.tables is not None
        tables, skipped = [], {}
        for name in self.tables:
            try:
                data = load_dataset(name)  # arrays: the paper moves whole numbers by parts, as all others
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
                **_average_folds(records),
                published=Score(*published[table].scores[method]),
                authors_code=published[table].authors_code.get(method),
            )
            for (table, method), records in folds.items()
        }


def _average_folds(records: list[Record]) -> Record:
    """Return the fields of a LearnerScore."""
    return {
        "folds": records,
        "accuracy": Score.over([r["accuracy"] for r in records]),
        "adversarial": Score.over([r["adversarial_accuracy"] for r in records]),
        "fit_seconds": float(np.mean([r["fit_seconds"] for r in records])),
    }


def _average(records: Sequence[Record]) -> Record:
    return {key: float(np.mean([record[key] for record in records])) for key in records[0]}
