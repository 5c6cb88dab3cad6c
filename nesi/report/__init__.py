"""Results: published numbers, comparison, tables, figures, the page."""
