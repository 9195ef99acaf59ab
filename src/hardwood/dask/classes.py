"""A table of classes on a cluster: what is learned, and its rows in codes."""

from typing import Any, NamedTuple

import numpy as np

from hardwood.dask.reading import BlockedTable, RowReader, draw_sample, place_rows
from hardwood.dask.run import DaskRun
from hardwood.dask.tables import Part
from hardwood.estimators.findings import join_classes
from hardwood.estimators.refusals import refuse_many_classes
from hardwood.estimators.target import refuse_one_class_with_weight, weigh_classes
from hardwood.grow.bins import Sample
from hardwood.grow.class_blocks import ClassBlock
from hardwood.grow.coded_rows import CodePlan, plan_codes
from hardwood.grow.limits import GrowOptions
from hardwood.grow.problem import Problem
from hardwood.threat import Reach, ThreatModel
from hardwood.weights import divide_classes


class PlacedProblem(NamedTuple):
    """What is learned from a table on a cluster."""

    problem: Problem  # without rows
    n_per_class: np.ndarray  # int64: the rows of each class that weigh something
    sample: Sample
    table: BlockedTable
    reader: RowReader

    @property
    def n_rows(self) -> int:
        """How many rows weigh something."""
        return int(self.n_per_class.sum())

    def code(self, reach: Reach, options: GrowOptions) -> tuple[CodePlan, list[Any]]:
        """Have all rows coded; return what codes mean, and handles of the blocks."""
        plan = plan_codes(self.sample, self.problem.schema, reach, options, options.max_bins)
        return plan, self.table.map(_code, self.reader, plan, name="hardwood-code")


def place_problem(estimator: Any, run: DaskRun, X: Any, y: Any, sample_weight: Any) -> PlacedProblem:
    """Read a table of classes into the memory of a cluster, as the parameters of an estimator say."""
    threat = ThreatModel.coerce(estimator.threat, estimator.attacking_classes)
    table, found = place_rows(estimator, run, X, y, sample_weight, has_classes=True)
    assert found.classes is not None
    classes = join_classes([found.classes])
    refuse_many_classes(estimator, classes)
    if found.has_weight:
        refuse_one_class_with_weight(classes, found.n_kept)
    schema, threat = found.columns.settle(threat)
    class_weight = weigh_classes(estimator.class_weight, classes, found.n_rows)
    class_weight, unit = divide_classes(found.weights, class_weight, has_weight=found.has_weight)
    problem = Problem(
        X=np.empty((0, schema.n_features)),
        class_index=np.empty(0, dtype=np.min_scalar_type(len(classes) - 1)),
        sample_weight=np.empty(0) if found.has_weight else None,
        class_weight=class_weight,
        schema=schema,
        classes=classes,
        threat=threat,
        weight_unit=unit,
    )
    reader = RowReader(schema, threat, classes, found.number_rows(len(table.handles)))
    return PlacedProblem(problem, found.n_kept, draw_sample(table, reader, found), table, reader)


def _code(parts: list[Part], reader: RowReader, plan: CodePlan) -> ClassBlock:
    """Code the rows of a block."""
    rows = list(reader.read(parts))
    none = np.empty(0, dtype=np.min_scalar_type(len(plan.stays) - 1))
    class_index = np.concatenate([none, *(each.target for each in rows)])
    weights = [each.sample_weight for each in rows if each.sample_weight is not None]
    codes = plan.code([each.X for each in rows if len(each.X)], class_index)
    pieces = tuple((each.start, len(each.X)) for each in rows)
    has_weight = any(part.sample_weight is not None for part in parts)
    return ClassBlock(codes, class_index, np.concatenate([np.empty(0), *weights]) if has_weight else None, pieces)
