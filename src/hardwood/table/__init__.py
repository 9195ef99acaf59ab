"""Tables: what users hand over, and what its columns are."""

from hardwood.table.schema import Schema
from hardwood.table.stream import Stream, stream

__all__ = ["Schema", "Stream", "stream"]
