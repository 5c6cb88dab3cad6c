"""A local web page on which a person labels the fields of a trained network: `python -m nesi label RUN_DIR`."""
