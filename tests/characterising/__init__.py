"""What every kind of model and of answer is, as digests: what a change that should move none of them is held to."""
