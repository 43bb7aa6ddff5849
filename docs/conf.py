"""Settings of the site. `make docs` assembles its pages in build/docs/source and calls Sphinx there."""

import importlib.metadata

from heddle_sim.docgen.docstrings import sections

project = "Heddle"
author = "the authors of Heddle"
copyright = "the authors of Heddle, Apache License 2.0"
release = version = importlib.metadata.version("heddle-hdl")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_files"]
highlight_language = "text"
nitpicky = False
html_theme = "furo"
html_title = f"Heddle {release}"
html_copy_source = False
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["heddle.css"]
html_extra_path = ["_files"]

myst_heading_anchors = 4
myst_enable_extensions = ["attrs_inline", "deflist"]
smartquotes = False

napoleon_google_docstring = False
napoleon_custom_sections = [("Ports", "params_style"), ("Fields", "params_style")]
napoleon_use_ivar = True
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True

linkcheck_ignore = [r"(?!https?:)"]      # what stays in the site is checked where it is built
linkcheck_anchors = False
linkcheck_retries = 3
linkcheck_timeout = 30


def setup(app):
    """Called by Sphinx: the labelled lines of docstrings become lists before napoleon reads them."""
    app.connect("autodoc-process-docstring", lambda app, what, name, obj, options, lines: sections(lines), priority=100)
