"""Neural Simpletrons: minimalistic generative networks for learning with few labels."""

__version__ = "0.1.0"
