"""Examples and witnesses are tables that the model they are about accepts, and is fooled by."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from hardwood import attack, verify


def make_table() -> tuple[pd.DataFrame, np.ndarray]:
    generator = np.random.default_rng(0)
    X = pd.DataFrame({"c": pd.Categorical(generator.choice(list("uvwxyz"), 200)), "n": generator.normal(size=200)})
    noise = generator.random(200) < 0.1
    return X, (X["c"].isin(["u", "x"]).to_numpy() ^ (X["n"] > 0).to_numpy() ^ noise).astype(int)


def make_model(kind: str) -> Any:
    if kind == "xgboost":
        xgb = pytest.importorskip("xgboost")
        return xgb.XGBClassifier(n_estimators=6, max_depth=3, n_jobs=1, enable_categorical=True, max_cat_to_onehot=1)
    if kind == "lightgbm":
        lgb = pytest.importorskip("lightgbm")
        return lgb.LGBMClassifier(n_estimators=6, n_jobs=1, verbose=-1, min_data_per_group=2, cat_smooth=1.0)
    if kind == "histogram":
        return HistGradientBoostingClassifier(max_iter=6, categorical_features="from_dtype")
    encoder = make_column_transformer((OneHotEncoder(), ["c"]), (StandardScaler(), ["n"]))
    return make_pipeline(encoder, RandomForestClassifier(6, max_depth=4, random_state=0))


@pytest.mark.parametrize("kind", ["xgboost", "lightgbm", "histogram", "pipeline"])
@pytest.mark.parametrize("threat", [{"c": "<>"}, {"c": "<>", "n": 0.3}], ids=str)
def test_the_source_is_fooled(kind: str, threat: dict[str, Any]) -> None:
    """A witness could hold the category `unseen`, which XGBoost refuses: not a category in its training set."""
    X, y = make_table()
    model = make_model(kind).fit(X, y)
    asked, labels = X[:60], y[:60]
    certificate, result = verify(model, asked, labels, threat), attack(model, asked, labels, threat)
    right = model.predict(asked) == labels
    fooled = right & (certificate.status == "vulnerable")
    assert fooled.sum() > 0
    for examples in (certificate.witness[fooled], result.X_adv[fooled]):
        assert set(examples["c"]) <= set("uvwxyz")
        assert (model.predict(examples) != labels[fooled]).all()
