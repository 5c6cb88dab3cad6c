"""Public data sets as non-negative arrays, integer labels and class names."""
