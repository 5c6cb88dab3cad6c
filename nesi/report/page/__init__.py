"""The report page of an experiment: one file, with everything in it."""

from nesi.report.page.making import competing_with, make_report

__all__ = ["competing_with", "make_report"]
