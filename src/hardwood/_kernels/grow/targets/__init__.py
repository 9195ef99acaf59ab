"""What trees on bins can tell: for each target a split search, which is compiled into the frame."""
