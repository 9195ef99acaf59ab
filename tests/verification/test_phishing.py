"""The study of phishing under a constrained attacker (benchmarks/phishing.py): what the page claims of the tree."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import train_test_split

from hardwood import RobustTreeClassifier, ThreatModel, TreeEnsemble, is_vulnerable, load_dataset

FOLDER = Path(os.environ.get("HARDWOOD_DATA", "."))
COLUMNS = FOLDER / "url-phishing-columns.csv"
pytestmark = pytest.mark.skipif(
    not COLUMNS.exists(), reason="url-phishing is not bundled: set HARDWOOD_DATA to a folder that holds it"
)


def make_threat(columns: pd.DataFrame, whole: list[str] | None) -> ThreatModel:
    span = (columns["max"] - columns["min"])[columns["max"] > columns["min"]]
    return ThreatModel(
        dict.fromkeys(span.index[columns["mutable"][span.index]], "<>"),
        attacking_classes=[1],
        radius=0.5,
        units=span,
        whole_numbers=whole,
        within={name: (row["min"], row["max"]) for name, row in columns.iterrows()},
    )


def find_robust_recall(model: RobustTreeClassifier | TreeEnsemble, pages: pd.DataFrame, threat: ThreatModel) -> float:
    return 1.0 - float(is_vulnerable(model, pages, np.ones(len(pages), dtype=int), threat).mean())


def test_a_readable_tree_keeps_its_recall() -> None:
    """The same tree keeps nine tenths of the pages, or one tenth if flags and counts could be set to fractions."""
    table = load_dataset("url-phishing", as_frame=True)
    columns = pd.read_csv(COLUMNS, index_col="feature").loc[table.data.columns]
    is_whole = (columns["type"] == "int").to_numpy()
    threat = make_threat(columns, columns.index[is_whole].tolist())
    X, held_out, y, label = train_test_split(
        table.data, table.target, test_size=0.2, stratify=table.target, random_state=0
    )
    tree = RobustTreeClassifier(threat, max_depth=5, random_state=0).fit(X, y)
    assert tree.score(held_out, label) >= 0.85
    pages = held_out[label == 1]
    assert find_robust_recall(tree, pages, threat) >= 0.90
    ensemble = tree.ensemble_
    counts = (ensemble.feature >= 0) & is_whole[ensemble.feature]
    midway = replace(ensemble, threshold=np.where(counts, ensemble.threshold + 0.5, ensemble.threshold))
    assert find_robust_recall(midway, pages, threat) == find_robust_recall(tree, pages, threat)
    assert find_robust_recall(midway, pages, make_threat(columns, None)) < 0.2
