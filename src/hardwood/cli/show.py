"""`hardwood show`: a model in, its rules out; or why it predicts a row so, and what an attacker can make of the row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import hardwood
from hardwood.cli.columns import find_absent
from hardwood.cli.late import np, pd
from hardwood.cli.messages import console, explaining, run_with_notice
from hardwood.cli.models import MODEL, TrustPickle, adopt_table, read_model, read_rows, read_target
from hardwood.cli.tables import check_inputs
from hardwood.cli.threat import EPSILON, THREAT, check_threat_options, read_threat, settle_threat

if TYPE_CHECKING:
    from hardwood import ThreatModel, TreeEnsemble

# Seconds for each leaf, or for the nearest example of a model of several trees.
_TIME_LIMIT = 10.0


def show(
    model: Annotated[Path, typer.Argument(help=MODEL)],
    *,
    tree: Annotated[int, typer.Option(metavar="N", min=1, help="Which tree of the model, counted from 1.")] = 1,
    max_depth: Annotated[int | None, typer.Option(metavar="N", min=0, help="Levels of conditions to show.")] = None,
    row: Annotated[int | None, typer.Option(metavar="N", min=1, help="Explain this row of --data, from 1.")] = None,
    data: Annotated[Path | None, typer.Option(metavar="FILE", help="The table that --row is about.")] = None,
    target: Annotated[str | None, typer.Option(metavar="COLUMN", help="The true classes of --data.")] = None,
    threat: Annotated[Path | None, typer.Option(metavar="FILE", help=THREAT)] = None,
    epsilon: Annotated[float | None, typer.Option(metavar="NUMBER", min=0, help=EPSILON)] = None,
    trust_pickle: TrustPickle = False,
) -> None:
    """Print the rules of a model, or explain one row.

    With --row: the path that the row takes and, with --threat or --epsilon, the leaves that an
    attacker can push it to, and by which change; of a model of several trees, the nearest example.

    **Example:** hardwood show model.json --row 17 --data mail.csv --threat threat.toml
    """
    check_threat_options(threat, epsilon)
    if (row is None) != (data is None):
        raise typer.BadParameter("--row and --data belong together: which row, of which table")
    check_inputs([model, *([data] if data else []), *([threat] if threat else [])], data=data)
    ensemble = read_model(model, trust_pickle=trust_pickle)
    if tree > ensemble.n_trees:
        raise typer.BadParameter(f"--tree {tree}: the model has {ensemble.n_trees}")
    if row is None or data is None:
        with explaining(f"show {model}"):
            _print(_describe_model(ensemble, tree))
            _print(hardwood.export_rules(ensemble, tree=tree - 1, max_depth=max_depth))
        return
    X, labels = read_rows(data, ensemble, target, asked=row)
    ensemble = adopt_table(ensemble, X)
    attacker = None if threat is None and epsilon is None else read_threat(threat, epsilon)
    if attacker is not None:
        with explaining(f"explain row {row} of {data}"):
            attacker = settle_threat(attacker, ensemble, X)
    X = X.loc[[row - 1]]
    label = None if labels is None else labels.loc[[row - 1]]
    is_absent = label is None or find_absent(label, is_regression=ensemble.classes is None).all()
    y = None if label is None or is_absent else read_target(label, ensemble, data)
    with explaining(f"explain row {row} of {data}"):
        lines = run_with_notice(lambda: list(_explain(ensemble, X, y, attacker, row)), "Attacking the row...")
    _print("\n".join(lines))


def _print(text: str) -> None:
    console.print(text, markup=False, soft_wrap=True)


def _describe_model(ensemble: TreeEnsemble, tree: int) -> str:
    if ensemble.n_trees == 1:
        return f"one tree, {ensemble.n_leaves} leaves, depth {ensemble.max_depth}\n"
    return f"{ensemble.n_trees} trees, {ensemble.n_leaves:,} leaves, depth {ensemble.max_depth}; tree {tree}:\n"


def _explain(
    ensemble: TreeEnsemble, X: pd.DataFrame, y: np.ndarray | None, threat: ThreatModel | None, row: int
) -> Iterator[str]:
    predicted = ensemble.predict(X)[0]
    truth = "" if y is None else f", and it is {y[0]}"
    yield f"row {row} is predicted {predicted}{truth}"
    if ensemble.n_trees > 1:
        if threat is not None:
            yield from _explain_by_example(ensemble, X, y, threat)
        return
    yield from _explain_by_leaves(ensemble, X, y, threat)


def _explain_by_leaves(
    ensemble: TreeEnsemble, X: pd.DataFrame, y: np.ndarray | None, threat: ThreatModel | None
) -> Iterator[str]:
    """Go through the path of a row down the only tree, and the leaves that an attacker can push it to."""
    from hardwood.ensemble.text import describe_conditions, describe_leaf
    from hardwood.verification.ask import AskSettings
    from hardwood.verification.explanation import explain_row
    from hardwood.verification.question import read_question

    settings = AskSettings(time_limit=_TIME_LIMIT)
    if ensemble.classes is None:
        matrix = ensemble.schema.encode(X)
        reach = hardwood.ThreatModel.coerce(threat).settle(X, matrix, ensemble.schema).resolve(ensemble.schema)
        explanation = explain_row(ensemble, matrix, 0, reach, settings)
    else:
        question = read_question(ensemble, X, y, threat, predict_if_no_labels=True)
        matrix, class_index = question.matrix, int(question.class_index[0])
        explanation = explain_row(ensemble, matrix, class_index, question.reach, settings)
    for condition in describe_conditions(ensemble, explanation.path):
        yield f"    {condition}"
    yield f"    {describe_leaf(ensemble, explanation.path[-1])}"
    if threat is None:
        return
    yield ""
    if not explanation.pushes:
        yield "the attacker cannot move it to any other leaf"
    for push in explanation.pushes:
        yield f"the attacker can push it to: {describe_leaf(ensemble, push.leaf)}"
        yield from _list_changes(ensemble, matrix[0], push.point, push.changed, X)
    if explanation.undecided:
        yield f"of {explanation.undecided} leaves it is not known"


def _explain_by_example(
    ensemble: TreeEnsemble, X: pd.DataFrame, y: np.ndarray | None, threat: ThreatModel
) -> Iterator[str]:
    """Say what the nearest example of a row is, or of a number the one that is furthest off."""
    norm = np.inf if ensemble.classes is None else 0
    result = hardwood.attack(ensemble, X, y, threat, norm=norm, time_limit=_TIME_LIMIT)
    if ensemble.classes is None:
        yield f"the attacker can make it {result.prediction[0]:.6g}:"
        yield from _list_changes(ensemble, *_find_changes(ensemble, X, result.X_adv), X)
        return
    if result.was_wrong[0]:
        return
    if result.made_wrong[0]:
        yield f"the attacker can make it {ensemble.predict(result.X_adv)[0]}:"
        yield from _list_changes(ensemble, *_find_changes(ensemble, X, result.X_adv), X)
    elif result.holds[0]:
        yield "whatever the attacker does, it stays so"
    else:
        yield f"whether the attacker can change that is not known after {_TIME_LIMIT:g} seconds"


def _find_changes(
    ensemble: TreeEnsemble, X: pd.DataFrame, examples: pd.DataFrame
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a row before and after, encoded, and the features that were changed."""
    before, after = (ensemble.schema.encode(table)[0] for table in (X, examples))
    return before, after, np.flatnonzero((before != after) & ~(np.isnan(before) & np.isnan(after)))


def _list_changes(
    ensemble: TreeEnsemble, before: np.ndarray, after: np.ndarray, changed: np.ndarray, X: pd.DataFrame
) -> Iterator[str]:
    for feature in changed.tolist():
        name, kind = ensemble.schema.name(feature), X.dtypes.iloc[feature].kind
        shown = [_show_value(ensemble, feature, row[feature], kind) for row in (before, after)]
        yield f"    {name}: {shown[0]} -> {shown[1]}"


def _show_value(ensemble: TreeEnsemble, feature: int, value: float, kind: str) -> str:
    if np.isnan(value):
        return "missing"
    labels: Any = ensemble.schema.categories[feature]
    if labels is not None:
        return str(labels[int(value)]) if value < len(labels) else "a category never seen"
    if kind == "b" and value in (0.0, 1.0):
        return str(bool(value))
    return str(int(value)) if kind in "iu" and value == int(value) else f"{value:.6g}"
