"""What the paper printed: its table of scores and its overview of algorithms."""

import csv
from dataclasses import dataclass
from importlib import resources

EPSILON = 0.1
DEPTH = 4
FOLDS = 5


@dataclass(frozen=True)
class PublishedTable:
    """A line of the paper's table: adversarial accuracies by method, as (mean, standard deviation) over five folds."""

    rows: int
    features: int
    scores: dict[str, tuple[float, float]]


@dataclass(frozen=True)
class Algorithm:
    """A line of the paper's overview. `method` is the key of ours that measures it, if one does."""

    name: str
    complexity: str
    threat_model: str
    method: str | None = None


# n samples, f features, d depth, r rules, X time of a solver, i rounds of hardening
OVERVIEW = (
    Algorithm("GROOT", "n log n · 2ᵈ · f", "L∞ and variations", "groot"),
    Algorithm("TREANT", "n² · 2ᵈ · 2ʳ · f", "axis-aligned rules", "treant"),
    Algorithm("Robust trees (Chen et al.)", "n² · 2ᵈ · f", "L∞", "chen"),
    Algorithm("MILP hardening", "n log n · X · 2ᵈ · f", "L0, L1, L2, L∞"),
    Algorithm("Approximate hardening", "n log n · i · d 2ᵈ · f", "L0"),
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
    text = (resources.files("hardwood.reproduction") / "published.csv").read_text(encoding="ascii")
    return {
        line["dataset"]: PublishedTable(
            rows=int(line["samples"]),
            features=int(line["features"]),
            scores={
                method: (float(line[method]), float(line[f"{method}_std"]))
                for method in ("natural", "chen", "groot", "treant")
            },
        )
        for line in csv.DictReader(text.splitlines())
    }
