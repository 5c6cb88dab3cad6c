"""Very few labels: spread them over a graph of the training points, then let the network learn (docs/few-labels.md)."""
