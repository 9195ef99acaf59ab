"""`hardwood predict`: a model and a table in, predictions out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hardwood.cli.late import np, pd
from hardwood.cli.messages import console, explaining, run_with_notice
from hardwood.cli.models import MODEL, TrustPickle, adopt_table, read_model, read_rows
from hardwood.cli.tables import check_inputs, check_output, check_table_name, write_table

if TYPE_CHECKING:
    from hardwood import TreeEnsemble


def predict(
    model: Annotated[Path, typer.Argument(help=MODEL)],
    data: Annotated[Path, typer.Argument(help="The rows to predict: .csv, .csv.gz or .parquet.")],
    output: Annotated[Path, typer.Option(metavar="FILE", help="Where to write: .csv, .csv.gz or .parquet.")],
    trust_pickle: TrustPickle = False,
) -> None:
    """Predict the rows of a table with a saved model.

    Writes one row per row of DATA: its number, the predicted class or value, then the probability of
    each class if the model has them. Columns that the model does not know are ignored.

    **Example:** hardwood predict model.json new-mail.csv --output predictions.csv
    """
    check_table_name(output)
    check_output(output, [model, data])
    check_inputs([model, data], data=data)
    ensemble = read_model(model, trust_pickle=trust_pickle)
    X, _ = read_rows(data, ensemble.schema, target=None)
    ensemble = adopt_table(ensemble, X)
    with explaining(f"predict {data}"):
        predictions = run_with_notice(lambda: _predict(ensemble, X), "Predicting...")
    write_table(predictions, output)
    counts = ""
    if ensemble.classes is not None:
        of_class = [f"{label}: {np.sum(predictions['prediction'] == label):,}" for label in ensemble.classes]
        counts = f" ({', '.join(of_class)})"
    console.print(f"Predicted {len(X):,} rows{counts}, saved to {output}", markup=False, soft_wrap=True)


def _predict(ensemble: TreeEnsemble, X: pd.DataFrame) -> pd.DataFrame:
    predictions = pd.DataFrame({"row": np.arange(1, len(X) + 1), "prediction": ensemble.predict(X)})
    if ensemble.link in ("probability", "logistic", "softmax"):
        probabilities = ensemble.predict_proba(X)
        for index, label in enumerate(ensemble.labels):
            predictions[f"probability_{label}"] = probabilities[:, index]
    return predictions
