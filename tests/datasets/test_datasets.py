"""The tables: their shapes, names and labels, and every way to obtain one."""

import doctest
import gzip
import hashlib
import io
import json
import os
import sys
import zlib
from email.message import Message
from http.client import IncompleteRead
from urllib.error import URLError

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import StratifiedKFold

from hardwood.datasets import list_datasets, load_dataset, loading
from hardwood.datasets.catalogue import CATALOGUE
from hardwood.datasets.openml import _grouped_by_class

# name: (rows, features, rows of class 1, CRC-32 of the values in row order, where bundled)
TABLES = {
    "banknote-authentication": (1372, 4, 610, 1047304779),
    "blood-transfusion": (748, 4, 178, 1729644471),
    "breast-cancer": (569, 30, 212, None),
    "breast-w": (683, 9, 239, 796072951),
    "climate-model-simulation": (540, 18, 494, None),
    "cylinder-bands": (277, 37, 99, None),
    "diabetes": (768, 8, 268, 812909990),
    "haberman": (306, 3, 81, 1632466742),
    "ionosphere": (351, 34, 126, 58987871),
    "parkinsons": (195, 22, 147, 23133359),
    "planning-relax": (182, 12, 52, None),
    "sonar": (208, 60, 111, 3710806598),
    "spambase": (4601, 57, 1813, 19779680),
    "SPECTF": (267, 44, 212, 1026176425),
    "wine": (6497, 11, 2384, 2308845113),
}
UNBUNDLED = ("climate-model-simulation", "cylinder-bands", "planning-relax")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty HARDWOOD_DATA folder."""
    monkeypatch.setenv("HARDWOOD_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def no_folder(monkeypatch):
    monkeypatch.delenv("HARDWOOD_DATA", raising=False)


def write_table(path, *, header=None, n_rows=4, n_features=2):
    """Write a table of counting numbers with alternating classes."""
    header = header or [*(f"x{k}" for k in range(1, n_features + 1)), "target"]
    rows = [[*range(row, row + len(header) - 1), row % 2] for row in range(n_rows)]
    path.write_text("\n".join(",".join(map(str, row)) for row in [header, *rows]) + "\n")


def test_the_catalogue_is_what_is_listed():
    assert list_datasets() == list(CATALOGUE) == list(TABLES)


@pytest.mark.parametrize("name", TABLES)
def test_table(name):
    if name in UNBUNDLED and not os.environ.get("HARDWOOD_DATA"):
        pytest.skip(f"{name} is not bundled: set HARDWOOD_DATA to a folder that holds it")
    n_rows, n_features, n_positive, checksum = TABLES[name]
    table = load_dataset(name)
    assert table.data.shape == (n_rows, n_features)
    assert table.data.dtype == np.float64
    assert table.data.flags.c_contiguous
    assert np.isfinite(table.data).all()
    assert table.target.dtype == np.int64
    assert np.bincount(table.target).tolist() == [n_rows - n_positive, n_positive]
    assert len(table.feature_names) == len(set(table.feature_names)) == n_features
    assert len(table.target_names) == 2
    assert table.frame is None
    for part in (name, table.target_names[1], "UCI Machine Learning Repository", "CC BY 4.0"):
        assert part in table.DESCR
    if checksum is not None:
        # Folds depend on the order of the rows, so it is pinned together with the values.
        values = np.column_stack([table.data, table.target]).astype("<f8")
        assert zlib.crc32(values.tobytes()) == checksum


def test_a_table_is_the_same_every_time_and_ones_own():
    first = load_dataset("haberman")
    first.data[:] = 0
    first.feature_names.clear()
    second = load_dataset("haberman")
    np.testing.assert_array_equal(second.data[0], [30, 64, 1])
    assert second.feature_names == ["age", "operation_year", "positive_nodes"]


def test_names_sit_on_the_right_columns():
    """Each of these columns is recognisable by its values alone."""
    spam = load_dataset("spambase")
    column = dict(zip(spam.feature_names, spam.data.T, strict=True))
    assert column["capital_run_length_longest"].max() == 9989
    assert column["capital_run_length_total"].max() == 15841
    assert np.all(column["capital_run_length_longest"] <= column["capital_run_length_total"])
    # The senders worked at Hewlett-Packard: George gets no spam.
    assert column["word_freq_george"][spam.target == 1].mean() < 0.01
    assert column["word_freq_george"][spam.target == 0].mean() > 1
    assert column["char_freq_$"][spam.target == 1].mean() > 0.15

    voices = load_dataset("parkinsons")
    column = dict(zip(voices.feature_names, voices.data.T, strict=True))
    assert np.all(column["MDVP:Flo(Hz)"] <= column["MDVP:Fo(Hz)"])
    assert np.all(column["MDVP:Fo(Hz)"] <= column["MDVP:Fhi(Hz)"])
    np.testing.assert_allclose(column["Jitter:DDP"], 3 * column["MDVP:RAP"], atol=2e-5)
    np.testing.assert_allclose(column["Shimmer:DDA"], 3 * column["Shimmer:APQ3"], atol=2e-5)

    wine = load_dataset("wine", as_frame=True).frame
    assert wine["pH"].between(2.7, 4.1).all()
    assert wine["alcohol"].between(8, 15).all()
    assert (wine["free_sulfur_dioxide"] < wine["total_sulfur_dioxide"]).all()

    patients = load_dataset("diabetes", as_frame=True).frame
    assert patients["age"].between(21, 81).all()
    assert patients["plasma_glucose"].max() == 199

    blood = load_dataset("blood-transfusion", as_frame=True).frame
    assert (blood["monetary_cc_blood"] == 250 * blood["frequency_times"]).all()


def test_names_of_cylinder_bands():
    """The ranges are those that the repository documents for each attribute."""
    if not os.environ.get("HARDWOOD_DATA"):
        pytest.skip("cylinder-bands is not bundled: set HARDWOOD_DATA to a folder that holds it")
    presses = load_dataset("cylinder-bands", as_frame=True).data
    assert set(presses["plating_tank"]) == {1910, 1911}
    assert presses["press"].nunique() == 8
    assert presses["press_speed"].between(0, 4000).all()
    assert presses["anode_space_ratio"].between(70, 130).all()
    assert presses["chrome_content"].between(80, 120).all()
    mixture = presses["ink_pct"] + presses["varnish_pct"] + presses["solvent_pct"]
    assert mixture.median() == pytest.approx(100, abs=0.1)


def test_breast_cancer_has_scikit_learns_rows_with_malignant_as_one():
    reference = load_breast_cancer()
    table = load_dataset("breast-cancer")
    np.testing.assert_array_equal(table.data, reference.data)
    np.testing.assert_array_equal(table.target, 1 - reference.target)
    assert table.feature_names == reference.feature_names.tolist()
    assert table.target_names == ["benign", "malignant"]


def test_as_frame():
    arrays = load_dataset("sonar")
    table = load_dataset("sonar", as_frame=True)
    assert table.data.columns.tolist() == table.feature_names == arrays.feature_names
    assert table.frame.columns.tolist() == [*table.feature_names, "target"]
    np.testing.assert_array_equal(table.data.to_numpy(), arrays.data)
    np.testing.assert_array_equal(table.target.to_numpy(), arrays.target)
    assert table.target.name == "target"
    assert table.target.dtype == np.int64


def test_as_frame_without_pandas_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert load_dataset("haberman").data.shape == (306, 3)
    with pytest.raises(ImportError, match=r"pip install pandas"):
        load_dataset("haberman", as_frame=True)


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [("spambse", "spambase"), ("spectf", "SPECTF"), ("breast_cancer", "breast-cancer")],
)
def test_an_unknown_name_is_answered_with_the_known_ones(no_folder, name, suggestion):
    with pytest.raises(ValueError, match=f"Did you mean '{suggestion}'") as caught:
        load_dataset(name)
    assert all(known in str(caught.value) for known in TABLES)


def test_a_name_unlike_any_other_gets_no_suggestion(folder):
    with pytest.raises(ValueError, match=r"name='qqq' is not a known table\. Known: banknote"):
        load_dataset("qqq")


def test_a_name_that_is_no_string():
    with pytest.raises(TypeError, match="name must be a string, got 3"):
        load_dataset(3)


def test_own_table(folder):
    write_table(folder / "mine.csv", header=["height", "weight, in kg", "target"])
    text = (folder / "mine.csv").read_text().replace("weight, in kg", '"weight, in kg"')
    (folder / "mine.csv").write_text("\ufeff" + text + "\n", encoding="utf-8")
    table = load_dataset("mine")
    assert table.feature_names == ["height", "weight, in kg"]
    np.testing.assert_array_equal(table.data, [[0, 1], [1, 2], [2, 3], [3, 4]])
    np.testing.assert_array_equal(table.target, [0, 1, 0, 1])
    assert table.target_names == ["0", "1"]
    assert str(folder / "mine.csv") in table.DESCR


def test_own_compressed_table(folder):
    write_table(folder / "plain.csv")
    (folder / "packed.csv.gz").write_bytes(gzip.compress((folder / "plain.csv").read_bytes()))
    np.testing.assert_array_equal(load_dataset("packed").data, load_dataset("plain").data)


def test_bundled_tables_come_before_the_folder(folder):
    write_table(folder / "haberman.csv")
    assert load_dataset("haberman").data.shape == (306, 3)


@pytest.mark.parametrize("named", [False, True])
def test_an_unbundled_table_from_the_folder(folder, named):
    catalogued = CATALOGUE["planning-relax"].feature_names
    header = catalogued if named else [f"x{k}" for k in range(1, 13)]
    write_table(folder / "planning-relax.csv", header=[*header, "target"], n_rows=182)
    table = load_dataset("planning-relax")
    assert table.feature_names == list(catalogued)
    assert table.target_names == ["planning", "relax"]
    assert str(folder / "planning-relax.csv") in table.DESCR


def test_an_unbundled_table_of_the_wrong_shape(folder):
    write_table(folder / "planning-relax.csv", n_rows=181, n_features=12)
    with pytest.raises(ValueError, match="182 complete rows and 12 features, got 181 and 12"):
        load_dataset("planning-relax")


@pytest.mark.parametrize("names", [CATALOGUE["planning-relax"].feature_names, [f"x{k}" for k in range(1, 13)]])
def test_an_unbundled_table_with_its_columns_in_another_order(folder, names):
    """They would otherwise be given each other's names."""
    write_table(folder / "planning-relax.csv", header=[*names[::-1], "target"], n_rows=182)
    with pytest.raises(ValueError, match="in this order, wavelet_packet_1, "):
        load_dataset("planning-relax")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "features and then 'target', got ''"),
        ("a,b\n1,0\n", "features and then 'target', got 'a, b'"),
        ("target,a\n1,0\n", "features and then 'target', got 'target, a'"),
        ("target\n1\n", "features and then 'target', got 'target'"),
        ("a,a,target\n1,2,0\n", "names must differ, got a more than once"),
        ("a,target\n", "no rows"),
        ("a,target\n\n", "no rows"),
        ("a,target\n1,0\nlow,1\n", "could not convert string 'low'"),
        ("a,target\n1,0\n,1\n", "could not convert string ''"),
        ("a,target\n1,0\n1,2,0\n", "number of columns changed"),
        ("a,b,target\n1,0\n", "header has 3 columns, the rows have 2"),
        ("a,target\n1,0\n1,2\n", "'target' must be 0 or 1, got 2"),
        ("a,target\n1,nan\n", "'target' must be 0 or 1, got nan"),
        ("a,target\n1,0 # no\n", "could not convert string '0 # no'"),
    ],
)
def test_a_broken_table_is_named_and_explained(folder, content, message):
    (folder / "broken.csv").write_text(content)
    with pytest.raises(ValueError, match=message) as caught:
        load_dataset("broken")
    assert str(caught.value).startswith(str(folder / "broken.csv"))


@pytest.mark.parametrize("content", [b"a,target\n1,0\n", gzip.compress(b"a,target\n1,0\n", mtime=0)[:-9]])
def test_a_damaged_archive_is_named(folder, content):
    (folder / "broken.csv.gz").write_bytes(content)
    with pytest.raises(ValueError, match=r"broken\.csv\.gz: "):
        load_dataset("broken")


def test_a_folder_that_does_not_exist(folder, monkeypatch):
    monkeypatch.setenv("HARDWOOD_DATA", str(folder / "nowhere"))
    assert load_dataset("haberman").data.shape == (306, 3)
    with pytest.raises(ValueError, match=r"HARDWOOD_DATA='.*nowhere' is not a folder"):
        load_dataset("planning-relax")


class RecordedOpenML:
    """Answers scikit-learn's requests to OpenML the way OpenML does."""

    def __init__(self, attributes, rows, target):
        arff = ["@RELATION recorded"]
        arff += [f"@ATTRIBUTE {name} {kind}" for name, kind in attributes.items()]
        arff += ["@DATA", *(",".join(row) for row in rows)]
        self.arff = "\n".join(arff).encode()
        self.n_rows = len(rows)
        self.features = [
            {
                "index": str(index),
                "name": name,
                "data_type": "nominal" if kind.startswith("{") else "numeric",
                "is_target": str(name == target).lower(),
                "is_ignore": "false",
                "is_row_identifier": "false",
                "number_of_missing_values": "0",
            }
            for index, (name, kind) in enumerate(attributes.items())
        ]

    def urlopen(self, request, *args, **kwargs):
        url = request.full_url
        if "/data/list/" in url:
            answer = {"data": {"dataset": [{"did": 1, "status": "active"}]}}
        elif "/data/features/" in url:
            answer = {"data_features": {"feature": self.features}}
        elif "/data/qualities/" in url:
            quality = {"name": "NumberOfInstances", "value": str(self.n_rows)}
            answer = {"data_qualities": {"quality": [quality]}}
        elif "/json/data/1" in url:
            answer = {
                "data_set_description": {
                    "id": "1",
                    "name": "recorded",
                    "version": "1",
                    "status": "deactivated",
                    "format": "ARFF",
                    "description": "",
                    "file_id": "1",
                    "url": "https://www.openml.org/data/v1/download/1/recorded.arff",
                    "md5_checksum": hashlib.md5(self.arff).hexdigest(),
                }
            }
        else:
            return self.response(self.arff)
        return self.response(json.dumps(answer).encode())

    @staticmethod
    def response(content):
        stream = io.BytesIO(content)
        stream.info = Message
        return stream


@pytest.fixture
def openml(no_folder, monkeypatch, tmp_path):
    """A function that replaces the network by recorded answers."""
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path))

    def replace(urlopen):
        monkeypatch.setattr("sklearn.datasets._openml.urlopen", urlopen)

    return replace


def recorded_cylinder_bands(n_complete=277, labels=("band", "noband")):
    """A table with the columns of the real one, identifiers and missing values included."""
    names = CATALOGUE["cylinder-bands"].feature_names
    attributes = {"timestamp": "NUMERIC", "cylinder_number": "{x1,x2}"}
    attributes |= dict.fromkeys(names, "NUMERIC")
    attributes |= {"customer": "{ZEBRA,APPLE,MANGO}", "band_type": "{" + ",".join(labels) + "}"}
    rows = []
    for row in range(n_complete + 5):
        cells = [f"{row}.{column}" for column in range(len(names))]
        cells[0] = ("ZEBRA", "APPLE", "MANGO")[row % 3]
        if row >= n_complete:
            cells[(row - n_complete) % 2] = "?"  # in the categorical and in a numerical column
        rows.append(["19910108", "x1", *cells, labels[row % 2]])
    return RecordedOpenML(attributes, rows, "band_type")


def test_a_table_from_openml_takes_the_form_of_the_files(openml, monkeypatch):
    openml(recorded_cylinder_bands().urlopen)
    monkeypatch.setitem(sys.modules, "pandas", None)
    table = load_dataset("cylinder-bands")
    assert table.data.shape == (277, 37)
    assert table.feature_names == list(CATALOGUE["cylinder-bands"].feature_names)
    # The first row, then the other class, then the rest of the first row's class.
    order = [0, *range(1, 277, 2), *range(2, 277, 2)]
    np.testing.assert_array_equal(table.target, [1] + [0] * 138 + [1] * 138)
    np.testing.assert_array_equal(table.data[:, 1], [row + 0.1 for row in order])
    # A category's code is its place in the declaration, not in the alphabet.
    np.testing.assert_array_equal(table.data[:, 0], [row % 3 for row in order])
    assert "OpenML's 'cylinder-bands' (version 2)" in table.DESCR


@given(st.permutations([0] * 5 + [1] * 5), st.lists(st.integers(0, 1), max_size=20))
def test_grouping_rows_by_class_keeps_the_folds(start, rest):
    target = np.array(start + rest)
    order = _grouped_by_class(target)
    assert sorted(order) == list(range(target.size))
    folds = StratifiedKFold(5, shuffle=True, random_state=1)
    before = [set(test) for _, test in folds.split(target, target)]
    after = [set(order[test]) for _, test in folds.split(target, target[order])]
    assert before == after


def test_the_folder_comes_before_openml(openml, monkeypatch, tmp_path):
    openml(lambda *_, **__: pytest.fail("asked the network"))
    write_table(tmp_path / "cylinder-bands.csv", n_rows=277, n_features=37)
    monkeypatch.setenv("HARDWOOD_DATA", str(tmp_path))
    assert load_dataset("cylinder-bands").data.shape == (277, 37)


def test_openml_with_another_table_under_the_same_name(openml):
    openml(recorded_cylinder_bands(n_complete=200).urlopen)
    with pytest.raises(ValueError, match="277 complete rows and 37 features, got 200 and 37"):
        load_dataset("cylinder-bands")


def test_openml_with_other_labels(openml):
    openml(recorded_cylinder_bands(labels=("band", "stripe")).urlopen)
    with pytest.raises(ValueError, match=r"has the labels \['stripe'\], expected only"):
        load_dataset("cylinder-bands")


@pytest.mark.parametrize("failure", [URLError("no route"), IncompleteRead(b"")])
def test_openml_out_of_reach(openml, monkeypatch, failure):
    def unreachable(*args, **kwargs):
        raise failure

    monkeypatch.setattr("time.sleep", lambda seconds: None)
    openml(unreachable)
    with pytest.raises(ConnectionError, match="Set HARDWOOD_DATA to a folder") as caught:
        load_dataset("planning-relax")
    assert "OpenML cannot be reached" in str(caught.value)
    assert "planning-relax.csv" in str(caught.value)


def test_examples_in_the_docstrings():
    results = doctest.testmod(loading)
    assert results.attempted > 0
    assert results.failed == 0
