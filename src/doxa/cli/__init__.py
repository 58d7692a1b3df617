"""The command line: parse, call, print."""

from doxa.cli import demo, fit, infer, learn, networks, report, show, values, warm_up, watch
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
    watch.watch,
    networks.convert,
    networks.sample,
    warm_up.warm_up,
    demo.demo,
):  # the order of the help
    app.command()(_command)
