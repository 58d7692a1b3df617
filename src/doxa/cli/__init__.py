"""The command line: parse, call, print."""

from doxa.cli import first_steps, fit, infer, learn, networks, report, show, values
from doxa.cli.app import app, main

__all__ = ["app", "main"]

for _command in (
    learn.learn,
    fit.fit,
    show.show,
    infer.infer,
    values.impute,
    values.predict,
    report.report,
    report.watch,
    networks.convert,
    networks.sample,
    first_steps.warm_up,
    first_steps.demo,
):  # the order of the help
    app.command()(_command)
