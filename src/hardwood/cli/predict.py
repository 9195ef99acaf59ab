"""`hardwood predict`: a model and a table in, predictions out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hardwood.cli.late import np, pd
from hardwood.cli.messages import console, explaining, run_with_notice, showing_progress
from hardwood.cli.models import MODEL, ModelColumns, TrustPickle, adopt_table, open_rows, read_model, read_rows
from hardwood.cli.streams import AsStream, choose_stream
from hardwood.cli.tables import check_inputs, check_output, check_table_name, write_parts, write_table

if TYPE_CHECKING:
    from hardwood import TreeEnsemble


def predict(
    model: Annotated[Path, typer.Argument(help=MODEL)],
    data: Annotated[Path, typer.Argument(help="The rows to predict: .csv, .csv.gz, .parquet, or a folder of Parquet.")],
    output: Annotated[Path, typer.Option(metavar="FILE", help="Where to write: .csv, .csv.gz or .parquet.")],
    trust_pickle: TrustPickle = False,
    stream: AsStream = None,
) -> None:
    """Predict the rows of a table with a saved model.

    Writes one row per row of DATA: its number, the predicted class or value, then the probability of
    each class if the model has them. Columns that the model does not know are ignored.

    **Example:** hardwood predict model.json new-mail.csv --output predictions.csv
    """
    check_table_name(output)
    check_output(output, [model, data])
    check_inputs([model, data], data=data, folder=True)
    ensemble = read_model(model, trust_pickle=trust_pickle)
    if choose_stream(data, stream):
        counted = _predict_stream(ensemble, data, output)
    else:
        X, _ = read_rows(data, ensemble, target=None)
        ensemble = adopt_table(ensemble, X)
        with explaining(f"predict {data}"):
            predictions = run_with_notice(lambda: _predict(ensemble, X), "Predicting...")
        write_table(predictions, output)
        counted = _Counted(ensemble)
        counted.add(predictions)
    console.print(f"Predicted {counted}, saved to {output}", markup=False, soft_wrap=True)


class _Counted:
    """How many rows were predicted to be of each class."""

    def __init__(self, ensemble: TreeEnsemble) -> None:
        self._n_rows = 0
        self._of_class = dict.fromkeys([] if ensemble.classes is None else ensemble.classes.tolist(), 0)

    def add(self, predictions: pd.DataFrame) -> pd.DataFrame:
        """Count some rows, and return them."""
        self._n_rows += len(predictions)
        for label in self._of_class:
            self._of_class[label] += int(np.sum(predictions["prediction"] == label))
        return predictions

    def __str__(self) -> str:
        of_class = ", ".join(f"{label}: {count:,}" for label, count in self._of_class.items())
        return f"{self._n_rows:,} rows" + (f" ({of_class})" if of_class else "")


def _predict_stream(ensemble: TreeEnsemble, data: Path, output: Path) -> _Counted:
    """Predict the rows of a stream, and write them part after part."""
    counted = _Counted(ensemble)
    tables = open_rows(data, ensemble.schema)
    adopted: TreeEnsemble | None = None
    # In the main thread, where Ctrl-C arrives, so that nothing is left of a file that is half written.
    with explaining(f"predict {data}"), showing_progress("Predicting...") as progress:

        def list_parts() -> Iterator[pd.DataFrame]:
            nonlocal adopted
            with explaining(f"read {data}"):
                for batch in tables.report_to(progress):
                    columns = ModelColumns(ensemble, data, target=None)
                    columns.add(batch.X)
                    columns.check()
                    X, _ = columns.read(batch.X)
                    if adopted is None:
                        adopted = adopt_table(ensemble, X)
                    yield counted.add(_predict(adopted, X))

        write_parts(list_parts(), output)
    return counted


def _predict(ensemble: TreeEnsemble, X: pd.DataFrame) -> pd.DataFrame:
    predictions = pd.DataFrame({"row": X.index.to_numpy() + 1, "prediction": ensemble.predict(X)})
    if ensemble.link in ("probability", "logistic", "softmax"):
        probabilities = ensemble.predict_proba(X)
        for index, label in enumerate(ensemble.labels):
            predictions[f"probability_{label}"] = probabilities[:, index]
    return predictions
