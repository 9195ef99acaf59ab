"""Attacks on regressions: the example whose prediction is furthest off."""

from typing import Any

import numpy as np

from hardwood.quoting import quote
from hardwood.results import RegressionAttackResult
from hardwood.verification.ask import AskSettings
from hardwood.verification.distance import measure, read_weight
from hardwood.verification.regression import find_outputs, give_back_errors, read_regression_question


def attack_regression(
    model: Any, X: Any, y: Any, threat: Any, *, norm: float, feature_weight: Any, settings: AskSettings
) -> RegressionAttackResult:
    """Find the example of each row whose prediction is furthest off from `y`, exactly."""
    if settings.method != "search":
        raise ValueError(f"method={quote(settings.method)}: the model is a regression; expected 'search'")
    question = read_regression_question(model, X, y, threat)
    ensemble, matrix, target = question.ensemble, question.matrix, question.target
    weight = read_weight(feature_weight, ensemble.schema)
    outputs = find_outputs(question, settings)
    examples = outputs.choose_examples(target)
    before = np.abs(ensemble.output(matrix)[:, 0].astype(np.float64) - target)
    error = np.abs(ensemble.output(examples)[:, 0].astype(np.float64) - target)
    stays = error <= before
    examples[stays], error[stays] = matrix[stays], before[stays]
    _, limit = outputs.bound_errors(target)
    return RegressionAttackResult(
        X_adv=give_back_errors(question, examples, error),
        prediction=ensemble.output(examples)[:, 0].astype(np.float64),
        error=error,
        upper=np.maximum(limit, error),
        error_before=before,
        distance=measure(examples, matrix, ensemble.schema, norm, weight),
        interrupted=outputs.interrupted,
    )
