"""`hardwood demo`: an ordinary tree and robust ones on a bundled table."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

import hardwood
from hardwood.cli.late import np
from hardwood.cli.messages import LOADING, console, explaining, run_with_notice
from hardwood.cli.tables import check_output, write_file

if TYPE_CHECKING:
    from hardwood import RobustTreeClassifier

_EPSILON = 0.1
_DEPTH = 3


def demo(
    output: Annotated[Path, typer.Option(metavar="FOLDER", help="Where to save the picture.")] = Path("demo-output"),
) -> None:
    """Compare an ordinary tree with robust ones on the spambase table.

    Prints the trees' accuracy with and without an attacker and the most robust tree as rules, and
    saves a picture of how the threat model shapes a tree.
    """
    from hardwood.plot import save_threat_models
    from hardwood.warm import warm_up

    picture = output / "threat-models.png"
    with explaining(f"make the folder {output}"):
        output.mkdir(parents=True, exist_ok=True)
    check_output(picture, [])
    run_with_notice(lambda: warm_up("fit", "refine", "predict"), LOADING)  # the demo shows how long fits take
    split = _read_spam()
    robust = _compare_trees(*split)
    console.print("\n[bold]The most robust tree[/bold] (cover: share of the training rows)\n")
    console.print(hardwood.export_rules(robust, digits=3), markup=False, soft_wrap=True)
    run_with_notice(lambda: write_file(picture, save_threat_models), "Drawing...")
    console.print(f"\nHow the threat model shapes a tree: {picture}", soft_wrap=True, markup=False)
    console.print(run_with_notice(lambda: _describe_boosting(*split), "Boosting..."), soft_wrap=True, markup=False)


def _read_spam() -> tuple[Any, ...]:
    """Return the table to train on, the one to judge by, and the labels of both."""
    from sklearn.model_selection import train_test_split

    spam = hardwood.load_dataset("spambase", as_frame=True)
    labels = np.array(spam.target_names)[spam.target]
    return tuple(train_test_split(spam.data, labels, test_size=0.3, stratify=labels, random_state=0))


def _describe_boosting(X_train: Any, X_test: Any, y_train: Any, y_test: Any) -> str:
    """Say what a hundred trees reach, by the bound that takes microseconds per row."""
    model = hardwood.RobustBoostingClassifier(_EPSILON, early_stopping=False, random_state=0).fit(X_train, y_train)
    accuracy = np.mean(model.predict(X_test) == y_test)
    certified = np.mean(model.certify(X_test, y_test).certified)
    size = model.ensemble_.n_trees
    return (
        f"\nRobust boosting, {size} trees: {accuracy:.1%}, at least {certified:.1%} under attack,\n"
        "by a bound that takes microseconds per row (RobustBoostingClassifier)"
    )


def _compare_trees(X_train: Any, X_test: Any, y_train: Any, y_test: Any) -> RobustTreeClassifier:
    console.print(
        f"[bold]Spambase[/bold]: {len(y_train) + len(y_test):,} e-mails in {X_train.shape[1]} columns, such "
        "as how often a word occurs (%).\n"
        f"An attacker can change every column of every e-mail by up to {_EPSILON}.\n"
        f"Fitted on {len(y_train):,} e-mails, measured on the other {len(y_test):,}.\n"
    )
    table = Table("", box=None, pad_edge=False, padding=(0, 2))
    for heading in ("accuracy", "under attack", "leaves", "fit time"):
        table.add_column(heading, justify="right")
    majority = max(np.mean(y_test == label) for label in np.unique(y_train))
    table.add_row("constant", f"{majority:.1%}", f"{majority:.1%}", "1", "")
    trees = (("ordinary tree", None, None), ("GROOT", _EPSILON, None), ('refine="search"', _EPSILON, "search"))
    for name, threat, refine in trees:
        model = hardwood.RobustTreeClassifier(threat, max_depth=_DEPTH, refine=refine, random_state=0)
        start = time.perf_counter()
        model.fit(X_train, y_train)
        seconds = time.perf_counter() - start
        accuracy = np.mean(model.predict(X_test) == y_test)
        under_attack = hardwood.adversarial_accuracy(model, X_test, y_test, _EPSILON)
        table.add_row(
            name,
            f"{accuracy:.1%}",
            f"{under_attack:.1%}",
            str(model.get_n_leaves()),
            f"{1000 * seconds:.0f} ms",
        )
    console.print(table)
    return model
