"""Tables to try things on: the paper's fourteen and one more, in raw units."""

from hardwood.datasets.loading import list_datasets, load_dataset

__all__ = ["list_datasets", "load_dataset"]
