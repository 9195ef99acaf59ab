"""Tables: what users hand over, and what its columns are."""

from hardwood.table.batches import Stream, stream
from hardwood.table.schema import Schema

__all__ = ["Schema", "Stream", "stream"]
