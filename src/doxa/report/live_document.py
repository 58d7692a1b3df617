"""The page of a run that goes on: the report, and a bar that says how far the run is and loads newer pages.

The report is left as it is.  Its policy, which allows nothing from anywhere, gets the hashes of the bar's own script
and style, and leave to ask the address that the page came from.
"""

from __future__ import annotations

import html

from doxa.report.assets import own_text
from doxa.report.document import filled, hash_source

__all__ = ["live_page", "waiting_page"]


def live_page(report: str, number: int, draws: int, gone: str) -> str:
    """A report with the bar.

    Parameters
    ----------
    report : str
        As `doxa.report.writing.page_text` makes it.
    number : int
        Of the page, from 1: a page with a larger number is newer.
    draws : int
        Of each chain, that the page shows.
    gone : str
        What to say when nobody answers any more.
    """
    script, style = own_text("live.js"), own_text("live.css")
    page = _once(report, "default-src 'none'; ", "default-src 'none'; connect-src 'self'; ")
    page = _once(page, "script-src ", f"script-src {hash_source(script)} ")
    page = _once(page, "style-src ", f"style-src {hash_source(style)} ")
    page = _once(page, "</head>", f"<style>{style}</style>\n</head>")
    page = _once(page, "<main ", f"{_bar(number, draws, gone)}\n<main ")
    body, end, rest = page.rpartition("</body>")
    return f"{body}<script>{script}</script>\n{end}{rest}"


def waiting_page(text: str, gone: str) -> str:
    """A page for the time before the first draws: it says so, and gives way to the first report."""
    script, styles = own_text("live.js"), own_text("page.css") + own_text("live.css")
    policy = (
        f"default-src 'none'; connect-src 'self'; script-src {hash_source(script)}; style-src {hash_source(styles)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    head = {"policy": policy, "title": "A run that has begun, doxa", "styles": f"<style>{styles}</style>"}
    return f"""{filled("head.html", head).rstrip()}
<body>
{_bar(0, 0, gone)}
<main id="main">
<section aria-labelledby="waiting">
<h1 id="waiting">There is nothing to show yet</h1>
<p id="live-waiting">{html.escape(text)}</p>
<p class="note">This page looks every two seconds and shows the report once there are draws. Closing it does not stop
the run.</p>
</section>
</main>
<script>{script}</script>
</body>
</html>
"""


def _bar(number: int, draws: int, gone: str) -> str:
    return f"""<aside id="live" aria-label="Live view of the run" data-page="{number}" data-draws="{draws}"
 data-gone="{html.escape(gone)}">
<p id="live-text">Asking how far the run is.</p>
<p class="live-tools">
<label><input type="checkbox" id="live-follow" checked> show newer draws as they come</label>
<button type="button" id="live-show" hidden>Show the newer draws now</button>
</p>
<p id="live-said" class="hidden" role="status"></p>
</aside>"""


def _once(text: str, old: str, new: str) -> str:
    """The first ``old`` changed to ``new``: all that is looked for comes before anything from the data."""
    if old not in text:
        raise ValueError(f"the report holds no {old!r}")
    return text.replace(old, new, 1)
