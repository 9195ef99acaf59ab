"""Reading what a classifier is to learn from: a table, labels, and weights."""

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import get_tags

from hardwood.grow.problem import Problem
from hardwood.quoting import quote
from hardwood.rows.columns import hides, is_missing_somewhere, read_columns
from hardwood.rows.targets import read_class_weight, read_target, weigh
from hardwood.table.likeness import find_whole_columns
from hardwood.weights import settle_weights


def read_problem(
    estimator: Any, X: Any, y: Any, sample_weight: Any, *, in_parts: bool = False, narrow: bool = False
) -> Problem:
    """Read a table, labels and weights as the parameters of a tree say, and its tags.

    Some take two classes only; those that take missing values accept some later if there are some here, or if the
    attacker makes or fills them.

    in_parts : whether whole numbers are moved by parts, unless the threat model says which are whole.
    narrow : whether a table of float32 may stay so, for a grower on bins.
    """
    threat, schema = read_columns(estimator, X, accepts_missing=get_tags(estimator).input_tags.allow_nan)
    if in_parts and threat.whole_numbers == "from_dtype" and not threat.rules and find_whole_columns(X):
        threat = threat.replace(whole_numbers=None)
    matrix = schema.encode_narrow(X) if narrow else schema.encode(X)
    if schema.accepts_missing and not hides(threat) and not is_missing_somewhere(matrix):
        schema = replace(schema, accepts_missing=False)
    threat = threat.settle(X, matrix, schema)
    classes, class_index = read_target(y, len(matrix))
    refuse_many_classes(estimator, classes)
    class_weight = read_class_weight(estimator.class_weight, classes, class_index)
    if sample_weight is not None:
        matrix, class_index, sample_weight = weigh(matrix, class_index, sample_weight, classes)
    class_weight, unit = settle_weights(sample_weight, class_index, class_weight)
    return Problem(
        X=matrix,
        class_index=class_index,
        sample_weight=sample_weight,
        class_weight=class_weight,
        schema=schema,
        classes=classes,
        threat=threat,
        weight_unit=unit,
    )


def refuse_many_classes(estimator: Any, classes: np.ndarray) -> None:
    """Refuse more than two classes if this estimator, with its parameters, takes only two."""
    if len(classes) <= 2 or get_tags(estimator).classifier_tags.multi_class:
        return
    shown = ", ".join(map(quote, classes[:5].tolist())) + (", ..." if len(classes) > 5 else "")
    raise ValueError(
        f"Only binary classification is supported: y has {len(classes)} classes ({shown}); {quote(estimator)} "
        "takes two. Merge classes into two, or fit one tree per class with sklearn.multiclass.OneVsRestClassifier."
    )
