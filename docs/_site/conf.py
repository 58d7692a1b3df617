"""How Sphinx builds the documentation site: ``make docs``.

Sphinx, because the docstrings are written for it (numpydoc, ``:math:``), its search works from a folder without a
server, and it is maintained; MyST reads the pages in ``docs/``, and Furo is a theme that asks nothing of the network.
What is ours is in ``doxa_site``: the order of the pages, the reference pages, mathematics, and links from names.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path

gc.disable()  # nearly all of a site lives until it is written: to look for garbage took a quarter of the time
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import doxa  # noqa: E402

project = "doxa"
author = "The doxa developers"
copyright = "the doxa developers"  # noqa: A001 (Sphinx's name)
release = version = doxa.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "doxa_site.docstrings",
    "doxa_site.pages",
    "doxa_site.mathematics",
    "doxa_site.names",
    "doxa_site.accessible",
]
exclude_patterns = ["_site", "figures"]
root_doc = "index"

myst_enable_extensions = ["alert", "deflist", "dollarmath"]
myst_heading_anchors = 4
myst_fence_as_directive = ["math"]

default_role = "py:obj"
smartquotes = False  # --draws is an option, not a dash
autodoc_typehints = "none"  # the docstrings say more
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 88
python_display_short_literal_types = True
add_module_names = False
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

html_theme = "furo"
html_title = f"doxa {release}"
html_short_title = "doxa"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_domain_indices = False  # modules are pages of the reference
html_search_language = "en"
html_show_search_summary = False  # it fetches pages, which a browser forbids in a folder
html_theme_options: dict[str, list[str]] = {
    "top_of_page_buttons": [],  # no code host is assumed
    "footer_icons": [],
}
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
