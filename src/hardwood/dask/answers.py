"""`verify`, `attack`, `evaluate` and `adversarial_accuracy` on a cluster: the local functions on every partition."""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from fractions import Fraction
from inspect import signature
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from hardwood import attacks, evaluation, verification
from hardwood.dask.model import DaskModel
from hardwood.dask.run import DaskRun, open_run
from hardwood.dask.tables import delay_parts, is_frame
from hardwood.evaluation.streamed import join_reports, settle_heads, take_head
from hardwood.progress import read_progress
from hardwood.rows.parts import Part, say_where
from hardwood.threat import ThreatModel
from hardwood.weights import add_weights, read_weights


def verify(model: Any, X: Any, y: Any, threat: Any, *, client: Any = None, progress: Any = None, **options: Any) -> Any:
    """Prove for every row of a Dask collection whether an attacker can change its prediction.

    See :func:`hardwood.verify`, which is called on each partition, on the workers.

    Parameters
    ----------
    model : fitted tree model
        As in :func:`hardwood.verify`, or an estimator of `hardwood.dask`.
    X : Dask array or DataFrame
    y : Dask array or Series with the partitions of X, the name of a column of X, or None
    threat : ThreatModel or any of its spellings
        Distances that are measured on a table, such as "2 std", are refused.
    client : distributed.Client or None
        None: the current one.
    progress : callable, bool or None
        Called with (partitions done, partitions in all).
    **options : the other parameters of :func:`hardwood.verify`

    Returns
    -------
    Certificate
        Of all rows, in the memory of the client.
    """
    return _ask(verification.verify, model, _Table(X, y), threat, client, progress, options, _join)


def attack(
    model: Any, X: Any, y: Any = None, threat: Any = None, *, client: Any = None, progress: Any = None, **options: Any
) -> Any:
    """Find the nearest adversarial example of every row of a Dask collection.

    See :func:`hardwood.attack`, which is called on each partition, on the workers.

    Parameters
    ----------
    model, X, y, threat, client, progress
        As in :func:`hardwood.dask.verify`.
    **options : the other parameters of :func:`hardwood.attack`

    Returns
    -------
    AttackResult, or RegressionAttackResult for a regression
        Of all rows, in the memory of the client: examples take as much as the table itself.
    """
    threat = "<>" if threat is None else threat
    return _ask(attacks.attack, model, _Table(X, y), threat, client, progress, options, _join)


def evaluate(
    model: Any, X: Any, y: Any, threat: Any, *, client: Any = None, progress: Any = None, **options: Any
) -> Any:
    """Measure a model on the rows of a Dask collection.

    See :func:`hardwood.evaluate`, which is called on each partition, on the workers. The report has neither a ceiling
    nor an area under the ROC curve, which take all rows at once.

    Parameters
    ----------
    model, X, y, threat, client, progress
        As in :func:`hardwood.dask.verify`.
    **options : the other parameters of :func:`hardwood.evaluate`

    Returns
    -------
    RobustnessReport, or RegressionReport for a regression
        Some 30 bytes per row, in the memory of the client.
    """
    if options.get("ceiling"):
        raise ValueError("ceiling=True: takes all rows at once, and these are read in parts; expected False")
    options = options | {"ceiling": False}
    return _ask(evaluation.evaluate, model, _Table(X, y), threat, client, progress, options, join_reports)


def adversarial_accuracy(
    model: Any, X: Any, y: Any, threat: Any, *, sample_weight: Any = None, client: Any = None, **options: Any
) -> float:
    """Return the share of rows of a Dask collection that a model classifies correctly whatever the attacker does.

    See :func:`hardwood.adversarial_accuracy`, which is called on each partition, on the workers.

    Parameters
    ----------
    model, X, y, threat, client
        As in :func:`hardwood.dask.verify`.
    sample_weight : Dask array or Series with the partitions of X, the name of a column of X, or None
    **options : the other parameters of :func:`hardwood.adversarial_accuracy`
    """
    table = _Table(X, y, sample_weight)
    return float(_ask(evaluation.adversarial_accuracy, model, table, threat, client, None, options, _average))


class _Table(NamedTuple):
    X: Any
    y: Any
    sample_weight: Any = None


class _Share(NamedTuple):
    """A share of some rows, and what these weigh."""

    share: float
    weight: Fraction


def _ask(
    function: Callable[..., Any],
    model: Any,
    table: _Table,
    threat: Any,
    client: Any,
    progress: Any,
    options: dict[str, Any],
    join: Callable[[list[Any]], Any],
) -> Any:
    """Call a function on every partition, and join what it says."""
    signature(function).bind(model, table.X, table.y, threat, **options)  # refuses what is no parameter of it
    model = model.to_local() if isinstance(model, DaskModel) else model
    threat, tell = ThreatModel.coerce(threat), read_progress(progress)
    parts = delay_parts(*table)
    from dask import delayed

    with open_run(client, tell, len(parts)) as run:
        settled, asked = _settle(run, model, table.X, parts, threat)
        call = delayed(_call, pure=False)
        token = uuid4().hex
        shared = delayed((model, asked, options), name=f"hardwood-model-{token}", traverse=False)
        name = f"hardwood-{function.__name__.replace('_', '-')}-{token}"
        handles = run.compute(
            [call(function, shared, part, dask_key_name=f"{name}-{number}") for number, part in enumerate(parts)]
        )
        said = [answer for answer in map(run.result, handles) if answer is not None]
    if not said:
        raise ValueError("X has no rows")
    joined = join(said)
    return replace(joined, threat=settled) if join is join_reports else joined


def _settle(run: DaskRun, model: Any, X: Any, parts: list[Any], threat: ThreatModel) -> tuple[ThreatModel, ThreatModel]:
    """Return a threat model as a table in memory would have it, and one that no partition adds whole columns to.

    Which columns of a DataFrame hold whole numbers is asked of every partition, which reads it once more.
    """
    at_once = len(parts) if is_frame(X) else 1
    settled = settle_heads(model, _take_heads(run, parts, at_once), threat)
    if settled is None:
        raise ValueError("X has no rows")
    return settled


def _take_heads(run: DaskRun, parts: list[Any], at_once: int) -> Iterator[Any]:
    """Yield the first rows of partitions that have some, and what their types are; some partitions at a time."""
    from dask import delayed

    take = delayed(_take_head, pure=False)
    for first in range(0, len(parts), at_once):
        names = [f"hardwood-types-{uuid4().hex}" for _ in parts[first : first + at_once]]
        heads = run.compute([take(part, dask_key_name=name) for part, name in zip(parts[first:], names, strict=False)])
        for head in run.gather(heads):
            if head is not None:
                yield head


def _take_head(part: Part) -> Any:
    return take_head(part.X) if part.X.shape[0] else None


def _call(function: Callable[..., Any], shared: tuple[Any, ThreatModel, dict[str, Any]], part: Part) -> Any:
    """Call a function on a partition; None: it has no rows, or none that weigh anything."""
    n_rows = Fraction(part.X.shape[0])
    model, threat, options = shared
    if part.sample_weight is not None:
        n_rows = add_weights(read_weights(part.sample_weight, part.X.shape[0]))
        options = options | {"sample_weight": part.sample_weight}
    if not n_rows:
        return None
    with say_where(part):
        answer = function(model, part.X, part.y, threat, **options)
    return _Share(answer, n_rows) if isinstance(answer, float) else answer


def _average(shares: list[_Share]) -> float:
    return float(sum(Fraction(each.share) * each.weight for each in shares) / sum(each.weight for each in shares))


def _join(results: list[Any]) -> Any:
    """Return what was found of all rows."""
    joined = {
        field.name: _join_column([getattr(result, field.name) for result in results]) for field in fields(results[0])
    }
    return type(results[0])(**joined)


def _join_column(parts: list[Any]) -> Any:
    if isinstance(parts[0], bool):
        return any(parts)
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    import pandas

    for name in parts[0].select_dtypes("category"):  # pandas forgets categories that differ
        categories = pandas.api.types.union_categoricals(
            [part[name] for part in parts], sort_categories=True
        ).categories
        dtype = pandas.CategoricalDtype(categories)
        parts = [part.astype({name: dtype}) for part in parts]
    return pandas.concat(parts)
