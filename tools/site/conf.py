"""Sphinx' configuration of the site; tools/site/__main__.py calls Sphinx with it.

MyST reads the pages as GitHub does (CommonMark). The theme has no fonts or scripts from elsewhere.
"""

from __future__ import annotations

import driver

project = "Rootport"
release = driver.__version__
html_title = f"Rootport {release}"
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
extensions = ["myst_parser", "sphinx_copybutton"]
myst_heading_anchors = 6
smartquotes = False  # in prose, too, --option has two hyphens
# What a page shows of a program may be cut with an ellipsis, which is no JSON or YAML.
suppress_warnings = ["misc.highlighting_failure"]
# Commands are copied without the prompt, and without what they print.
copybutton_prompt_text = "$ "
