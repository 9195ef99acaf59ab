"""Training rows on their way in: tables, streams and partitions become matrices, targets, weights and a threat."""
