"""Fields, the pictures of units: labels for them, which to ask about, pruning."""
