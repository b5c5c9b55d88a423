# SPDX-License-Identifier: Apache-2.0
"""Sphinx settings."""

import importlib.metadata
import re
from typing import Any

project = "reportclient"
copyright = "the reportclient authors, Apache-2.0"
release = version = importlib.metadata.version("reportclient")

extensions = [
    "myst_parser",
    "openstackdocstheme",
    "reno.sphinxext",
    "sphinx.ext.autodoc",
]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
exclude_patterns = ["_build"]
html_theme = "openstackdocs"
pygments_style = "native"

# The theme's: this project names and dates itself.
openstackdocs_auto_name = False
openstackdocs_auto_version = False
openstackdocs_pdf_link = False
html_theme_options = {"sidebar_mode": "toctree", "display_global_toc_section": True}

# `name` in a docstring is a link if it is a name of the reference.
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "show-inheritance": True}
myst_heading_anchors = 3
# ARCHITECTURE.md and CONTRIBUTING.md are read in the repository too, where
# their links to each other lead somewhere.
suppress_warnings = ["myst.xref_missing"]


def setup(app: Any) -> None:
    """Join long names of fields.

    ``:raises A, B,`` may go on in the next line of a docstring; the name of a
    field in reStructuredText may not.
    """

    def join(
        _app: Any, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]
    ) -> None:
        at = 0
        while at < len(lines) - 1:
            if re.match(r"\s*:raises [^:]*$", lines[at]) and lines[at + 1].strip():
                lines[at] += " " + lines.pop(at + 1).strip()
            else:
                at += 1

    app.connect("autodoc-process-docstring", join)
