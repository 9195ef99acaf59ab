"""`hardwood attack`: a model, a table and a threat model in, adversarial examples out."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import hardwood
from hardwood.cli.late import np, pd
from hardwood.cli.messages import LOADING, console, explaining, run_with_notice, say_error, showing_progress
from hardwood.cli.models import MODEL, TrustPickle, adopt_table, read_model, read_rows, read_target
from hardwood.cli.tables import check_inputs, check_output, check_table_name, write_table
from hardwood.cli.threat import EPSILON, THREAT, check_threat_options, read_threat, settle_threat

if TYPE_CHECKING:
    from hardwood import AttackResult
    from hardwood.results import RegressionAttackResult


# Types that know missing values, by the kinds of those that do not.
_NULLABLE = {"i": "Int64", "u": "Int64", "b": "boolean"}


class Norm(StrEnum):
    """How the size of a change is measured."""

    inf = "inf"
    two = "2"
    one = "1"
    zero = "0"


def attack(
    model: Annotated[Path, typer.Argument(help=MODEL)],
    data: Annotated[Path, typer.Argument(help="The rows to attack: .csv, .csv.gz or .parquet.")],
    *,
    output: Annotated[Path, typer.Option(metavar="FILE", help="Where to write the examples: .csv or .parquet.")],
    target: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The true classes; without, any other prediction than now will do."),
    ] = None,
    threat: Annotated[Path | None, typer.Option(metavar="FILE", help=THREAT)] = None,
    epsilon: Annotated[float | None, typer.Option(metavar="NUMBER", min=0, help=EPSILON)] = None,
    norm: Annotated[Norm, typer.Option(help="How the size of a change is measured.")] = Norm.inf,
    time_limit: Annotated[float, typer.Option(metavar="SECONDS", min=0, help="Per row.")] = 10.0,
    jobs: Annotated[int | None, typer.Option(metavar="N", help="Threads; -1 for all cores.")] = None,
    trust_pickle: TrustPickle = False,
) -> None:
    """Find the nearest adversarial example of every row.

    Writes one row per row of DATA: its number, its class, whether it was wrong as it stood, was
    made wrong, holds, or is undecided, how far away the example is, a distance below which there is
    none, the example in the units of the table, and what stood there before where it was changed.
    Of a model that predicts numbers: the example whose prediction is furthest off, and by how much.
    Without --threat or --epsilon every column may take any value. Ctrl-C keeps what has been found.

    **Example:** hardwood attack model.json mail.csv --target spam --threat threat.toml --output
    examples.csv
    """
    check_table_name(output)
    check_threat_options(threat, epsilon)
    inputs = [model, data, *([threat] if threat else [])]
    check_output(output, inputs)
    check_inputs(inputs, data=data)
    anywhere = threat is None and epsilon is None
    threat_model = None if anywhere else read_threat(threat, epsilon)
    ensemble = read_model(model, trust_pickle=trust_pickle)
    X, labels = read_rows(data, ensemble, target)
    ensemble = adopt_table(ensemble, X)
    y = ensemble.predict(X) if labels is None else read_target(labels, ensemble, data)
    if threat_model is not None:
        with explaining(f"attack {model} on {data}"):
            threat_model = settle_threat(threat_model, ensemble, X)
    search = partial(hardwood.attack, ensemble, threat=threat_model, norm=float(norm), n_jobs=jobs)
    with explaining(f"attack {model} on {data}"):
        run_with_notice(lambda: search(X.iloc[:1], y[:1], time_limit=0.0), LOADING)
        # In the main thread, where Ctrl-C arrives: the search itself has threads of its own.
        with showing_progress("Attacking...") as progress:
            result = search(X, y, time_limit=time_limit, progress=progress)
    is_regression = ensemble.classes is None
    write_table(_as_table(result, X, y, _list_errors(result) if is_regression else _list_outcomes(result)), output)
    console.print(
        f"{_summarise_errors(result) if is_regression else _summarise(result)}; saved to {output}",
        markup=False,
        soft_wrap=True,
    )
    if result.interrupted:
        say_error(f"interrupted: {output} holds what had been found by then")
        raise typer.Exit(130)


def _summarise(result: AttackResult) -> str:
    """Tell apart rows that were wrong, rows that were made wrong and rows that hold: only the second is an attack."""
    kinds = {
        "are wrong as they stand": result.was_wrong,
        "can be made wrong": result.made_wrong,
        "hold": result.holds,
    }
    if result.undecided.any():
        kinds["are undecided"] = result.undecided
    said = [f"{rows.sum():,} ({rows.mean():.1%}) {what}" for what, rows in kinds.items()]
    text = f"{len(result.found):,} rows: {', '.join(said)}"
    unproved = result.found & (result.lower < result.distance)
    if unproved.any():
        text += f"; {unproved.sum():,} of the examples are perhaps not the nearest"
    return text


def _summarise_errors(result: RegressionAttackResult) -> str:
    """Say how far predictions are off, and how far they can be made to be."""
    worse = result.made_worse
    return (
        f"{len(worse):,} rows: {worse.sum():,} ({worse.mean():.1%}) can be made worse, from "
        f"{result.error_before.mean():.4g} off on average to {result.error.mean():.4g}"
    )


def _list_outcomes(result: AttackResult) -> dict[str, Any]:
    kinds = [result.was_wrong, result.made_wrong, result.holds]
    return {
        "outcome": np.select(kinds, ["was wrong", "made wrong", "holds"], "undecided"),
        "distance": result.distance,
        "lower": result.lower,
    }


def _list_errors(result: RegressionAttackResult) -> dict[str, Any]:
    return {
        "error_before": result.error_before,
        "error": result.error,
        "error_at_most": result.upper,
        "distance": result.distance,
    }


def _as_table(
    result: AttackResult | RegressionAttackResult, X: pd.DataFrame, y: np.ndarray, found: dict[str, Any]
) -> pd.DataFrame:
    """One row per row: what was found, the example, and what stood before in the cells that were changed."""
    names = list(X.columns)
    is_regression = "error" in found
    moved = getattr(result, "made_worse" if is_regression else "made_wrong")
    numbered = {"row": X.index.to_numpy() + 1, "target" if is_regression else "class": y, **found}
    outcome = pd.DataFrame(numbered, index=X.index)
    before, examples = {}, {}
    for name in names:
        own = X[name]
        after = examples[name] = _as_typed(result.X_adv[name], own)
        changed = moved & (after.astype(object) != own.astype(object)).to_numpy() & own.notna().to_numpy()
        if changed.any():
            before[f"{name}_before"] = own.astype(_NULLABLE.get(own.dtype.kind, object)).where(changed)
    outcome = outcome.rename(columns={name: f"attack_{name}" for name in outcome.columns if name in {*names, *before}})
    return pd.concat([outcome, pd.DataFrame(examples), pd.DataFrame(before, index=X.index)], axis=1)


def _as_typed(after: pd.Series, own: pd.Series) -> pd.Series:
    """Return a column of examples in the type that it had, though rows without an example are empty: 14, not 14.0."""
    nullable, known = _NULLABLE.get(own.dtype.kind), after.dropna()
    if nullable is None or after.dtype.kind != "f":
        return after
    fits = known.isin([0.0, 1.0]) if nullable == "boolean" else (known % 1.0 == 0.0) & (known.abs() < 2.0**63)
    return after.astype(nullable) if fits.all() else after
