"""What the paper printed, its table of scores and its overview of algorithms, and what its authors' code gives."""

import csv
from dataclasses import dataclass
from pathlib import Path

EPSILON = 0.1
DEPTH = 4
FOLDS = 5


@dataclass(frozen=True)
class PublishedTable:
    """A line of the paper's table.

    Attributes
    ----------
    rows, features : int
        The size of the data set.
    scores : dict
        Adversarial accuracies by method, as (mean, standard deviation) over five folds.
    authors_code : dict
        The least and the greatest mean that groot-trees, the authors' own code, gave on the same folds with several
        seeds, by method; see :func:`read_authors_code`.
    """

    rows: int
    features: int
    scores: dict[str, tuple[float, float]]
    authors_code: dict[str, tuple[float, float]]


@dataclass(frozen=True)
class Algorithm:
    """A line of the paper's overview. `learner` is the key of ours that measures it."""

    name: str
    complexity: str
    threat_model: str
    learner: str


# The paper has one line for Chen et al., and says in its text that their four cases take GROOT's time.
# n samples, f features, d depth, r rules, X time of a solver, i rounds of hardening
OVERVIEW = (
    Algorithm("GROOT", "n log n · 2ᵈ · f", "L∞ and variations", "groot"),
    Algorithm("TREANT", "n² · 2ᵈ · 2ʳ · f", "axis-aligned rules", "treant"),
    Algorithm("Robust trees (Chen et al.), greedy", "n² · 2ᵈ · f", "L∞", "chen-greedy"),
    Algorithm("Robust trees (Chen et al.), four cases", "n log n · 2ᵈ · f", "L∞", "chen"),
    Algorithm("MILP hardening", "n log n · X · 2ᵈ · f", "L0, L1, L2, L∞", "hardening-exact"),
    Algorithm("Approximate hardening", "n log n · i · d 2ᵈ · f", "L0", "hardening-coordinate"),
    Algorithm("Regular trees", "n log n · 2ᵈ · f", "none", "natural"),
)


def read_published() -> dict[str, PublishedTable]:
    """Return the paper's table, by name of the data set.

    Examples
    --------
    >>> published = read_published()
    >>> len(published), published["wine"].scores["groot"]
    (14, (0.681, 0.012))
    """
    again = read_authors_code()
    return {
        line["dataset"]: PublishedTable(
            rows=int(line["samples"]),
            features=int(line["features"]),
            scores={
                method: (float(line[method]), float(line[f"{method}_std"]))
                for method in ("natural", "chen", "groot", "treant")
            },
            authors_code=again[line["dataset"]],
        )
        for line in _read_lines("published.csv")
    }


def read_authors_code() -> dict[str, dict[str, tuple[float, float]]]:
    """Return what groot-trees 0.0.17 gave on the paper's folds, by data set and method: the least and greatest mean.

    It decides by chance which rows move, so it was run with six seeds. `benchmarks/paper_protocol.py` prints these
    figures, for GROOT, and with `--attacker chen` for the four cases of Chen et al. within GROOT's search.

    Examples
    --------
    >>> read_authors_code()["wine"]["chen"]
    (0.621, 0.621)
    """
    return {
        line["dataset"]: {
            method: (float(line[f"{method}_least"]), float(line[f"{method}_greatest"])) for method in ("chen", "groot")
        }
        for line in _read_lines("authors_code.csv")
    }


def _read_lines(name: str) -> list[dict[str, str]]:
    text = Path(__file__).with_name(name).read_text(encoding="ascii")
    return list(csv.DictReader(text.splitlines()))
