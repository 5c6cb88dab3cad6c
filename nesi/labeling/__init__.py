"""A local web page on which a person labels the fields of a trained network: `nesi label RUN_DIR`."""
