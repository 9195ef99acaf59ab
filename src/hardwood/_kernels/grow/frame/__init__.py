"""The frame that grows trees on bins, whatever they tell: kernels around the split search of a target."""
