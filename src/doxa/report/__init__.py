"""The report: one page that says what an answer says, how sure it is, and whether to trust it.

`write_report` writes it.  What the page shows is worked out here, as plain data; how it is shown is in ``assets``.
``import doxa`` does not load this.
"""

from doxa.report.writing import page_text, write_report

report = write_report  # as `doxa.report`

__all__ = ["page_text", "report", "write_report"]
