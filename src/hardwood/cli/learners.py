"""What `hardwood fit` can fit, and how its options become parameters."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import hardwood
from hardwood.cli.late import np
from hardwood.cli.messages import CommandError
from hardwood.cli.summary import FittedModel

if TYPE_CHECKING:
    from hardwood import ThreatModel
    from hardwood.cli.training import TrainingTable


class Task(StrEnum):
    """What is predicted."""

    classification = "classification"
    regression = "regression"


class Learner(StrEnum):
    """The kind of model."""

    tree = "tree"
    forest = "forest"
    boosting = "boosting"
    treant = "treant"
    hardened = "hardened"


_NAMES = {
    (Learner.tree, Task.classification): "RobustTreeClassifier",
    (Learner.tree, Task.regression): "RobustTreeRegressor",
    (Learner.forest, Task.classification): "RobustForestClassifier",
    (Learner.forest, Task.regression): "RobustForestRegressor",
    (Learner.boosting, Task.classification): "RobustBoostingClassifier",
    (Learner.boosting, Task.regression): "RobustBoostingRegressor",
    (Learner.treant, Task.classification): "TreantClassifier",
}
# Options of the model that is hardened; all others are those of the hardening.
_OF_THE_HARDENED = ("n_estimators", "max_depth", "learning_rate")


def check_can_stream(learner: Learner, data: Path) -> None:
    """Refuse a kind of model that needs the whole table."""
    if learner in (Learner.treant, Learner.hardened):
        raise typer.BadParameter(
            f"--model {learner.value} needs the whole table in memory, and {data} is read part after part: choose "
            "--model tree, forest or boosting, or fit it to some of the rows"
        )


def fit_model(
    learner: Learner, task: Task, threat: ThreatModel, chosen: dict[str, Any], table: TrainingTable
) -> FittedModel:
    """Fit the model that the user asked for."""
    X, y = table.X, table.y
    if learner is not Learner.hardened:
        from hardwood.rows.sources import StreamSource, TableSource

        source = StreamSource(X) if table.is_stream else TableSource(X, y, None)
        estimator = make_estimator(learner, task, threat, chosen).fit(source, None)
        return FittedModel(hardwood.as_ensemble(estimator), estimator, estimator.threat_, table, source)
    # XGBoost takes classes that are numbers from 0 on.
    labels, codes = np.unique(y, return_inverse=True)
    attacking = chosen["attacking_classes"] or threat.attacking_classes
    code_of = {label: code for code, label in enumerate(labels.tolist())}
    chosen = chosen | {"attacking_classes": attacking and [code_of[label] for label in attacking]}
    estimator = make_estimator(learner, task, threat.replace(attacking_classes=None), chosen).fit(X, codes)
    settled = estimator.threat_.replace(attacking_classes=attacking)
    return FittedModel(replace(hardwood.as_ensemble(estimator, X), classes=labels), estimator, settled, table)


def make_estimator(learner: Learner, task: Task, threat: Any, chosen: dict[str, Any]) -> Any:
    """Return the estimator that the user asked for, with the parameters that he chose: those that are not None."""
    chosen = {name: value for name, value in chosen.items() if value is not None}
    if learner is Learner.hardened:
        return _make_hardened(task, threat, chosen)
    if (learner, task) not in _NAMES:
        raise typer.BadParameter(f"--model {learner.value} predicts classes, not numbers")
    kind = getattr(hardwood, _NAMES[learner, task])
    known = kind().get_params()
    _check_known(chosen, known, learner, task)
    return kind(threat, **chosen, **({"random_state": 0} if "random_state" in known else {}))


def _make_hardened(task: Task, threat: Any, chosen: dict[str, Any]) -> Any:
    if task is Task.regression:
        raise typer.BadParameter("--model hardened predicts classes, not numbers")
    inner = {name: chosen.pop(name) for name in _OF_THE_HARDENED if name in chosen}
    if find_spec("xgboost") is not None:
        from xgboost import XGBClassifier

        base = XGBClassifier(**inner, enable_categorical=True, random_state=0)
    elif find_spec("lightgbm") is not None:
        from lightgbm import LGBMClassifier

        base = LGBMClassifier(**inner, random_state=0, verbosity=-1)
    else:
        raise CommandError("--model hardened needs XGBoost or LightGBM: pip install xgboost, or lightgbm")
    _check_known(chosen, hardwood.HardenedClassifier().get_params(deep=False), Learner.hardened, task)
    return hardwood.HardenedClassifier(base, threat, **chosen, random_state=0)


def _check_known(chosen: dict[str, Any], known: dict[str, Any], learner: Learner, task: Task) -> None:
    """Refuse options that the estimator does not have."""
    for name in chosen:
        if name not in known:
            spelled = {"n_estimators": "--trees", "class_weight": "--balanced", "n_jobs": "--jobs"}.get(
                name, f"--{name.replace('_', '-')}"
            )
            raise typer.BadParameter(f"{spelled}: --model {learner.value} for {task.value} has no such option")
