"""Relations that are found in a table: those that are there, and no others."""

import numpy as np
import pytest

from hardwood import load_dataset
from hardwood.table import Schema
from hardwood.threat.relation_finding import find_relations


def find_texts(columns: dict[str, np.ndarray]) -> list[str]:
    schema = Schema.numeric(len(columns), list(columns))
    return [found.text for found in find_relations(np.column_stack(list(columns.values())).astype(float), schema)]


@pytest.fixture
def numbers() -> dict[str, np.ndarray]:
    a, b, c = np.random.default_rng(0).integers(0, 40, (3, 200))
    return {"a": a, "b": b, "c": c}


def test_sums_ratios_and_multiples(numbers: dict[str, np.ndarray]) -> None:
    a, b, c = numbers.values()
    assert find_texts(numbers | {"two": a + b}) == ["two = a + b"]
    assert find_texts(numbers | {"all three": a + b + c}) == ["`all three` = a + b + c"]
    assert find_texts(numbers | {"share": a / (b + 1.0), "b1": b + 1}) == ["share = a / b1", "b <= b1"]
    assert find_texts(numbers | {"cents": 100 * a}) == ["cents = 100 * a"]


def test_a_sum_of_a_sum_is_said_once(numbers: dict[str, np.ndarray]) -> None:
    a, b, c = numbers.values()
    assert find_texts(numbers | {"ab": a + b, "class": a + b + c}) == ["ab = a + b", "`class` = c + ab"]


def test_comparisons_are_said_once_and_only_where_chance_would_break_them(numbers: dict[str, np.ndarray]) -> None:
    generator = np.random.default_rng(1)
    a = numbers["a"]
    low, high = a - generator.integers(0, 3, 200), a + generator.integers(0, 3, 200)
    assert find_texts({"low": low, "a": a, "high": high}) == ["low <= a", "a <= high"]
    assert find_texts({"a": a, "far": 1000 + generator.integers(0, 40, 200)}) == []


def test_what_speaks_for_nothing(numbers: dict[str, np.ndarray]) -> None:
    """Flags, constants, columns with gaps, sums in which one part is hardly ever there, and tables of few rows."""
    a = numbers["a"]
    flag, gaps, rare = (a > 20).astype(float), np.where(a > 20, np.nan, a), np.zeros(200)
    rare[:5] = [1, 2, 3, 4, 5]
    assert find_texts({"a": a, "flag": flag, "gaps": gaps, "constant": np.full(200, 3), "again": a}) == []
    assert "total = a + rare" not in find_texts({"a": a, "rare": rare, "total": a + rare})
    assert find_texts({"a": a[:6], "b": numbers["b"][:6], "c": a[:6] + numbers["b"][:6]}) == []


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_found_in_noise(seed: int) -> None:
    generator = np.random.default_rng(seed)
    whole = generator.integers(0, 9, (300, 12))
    assert find_texts({f"n{j}": whole[:, j] for j in range(12)}) == []
    assert find_texts({f"x{j}": generator.normal(size=300) for j in range(12)}) == []


def test_what_is_known_of_tables() -> None:
    found = {}
    for name in ("spambase", "blood-transfusion", "diabetes"):
        table = load_dataset(name)
        columns = dict(zip(table.feature_names, table.data.T, strict=True))
        found[name] = find_texts(columns)
    assert found["spambase"] == [
        "capital_run_length_longest <= capital_run_length_total",
        "capital_run_length_average <= capital_run_length_longest",
    ]
    assert found["blood-transfusion"][0] == "monetary_cc_blood = 250 * frequency_times"
    assert found["diabetes"] == []
