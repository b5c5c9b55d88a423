# SPDX-License-Identifier: Apache-2.0
"""Sphinx settings."""

import importlib.metadata
import re
import subprocess
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive

project = "reportclient"
copyright = "the reportclient authors, Apache-2.0"
release = version = importlib.metadata.version("reportclient")

extensions = ["myst_parser", "openstackdocstheme", "sphinx.ext.autodoc"]
# reno dates notes by the history, which a shallow clone or a plain copy lacks.
shallow = subprocess.run(
    ["git", "rev-parse", "--is-shallow-repository"],
    capture_output=True,
    text=True,
    check=False,
    cwd=Path(__file__).parent,
)
has_history = shallow.stdout.strip() == "false"
if has_history:
    extensions.append("reno.sphinxext")
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


class NoHistory(Directive):
    """In place of reno's directive."""

    def run(self) -> list[nodes.Node]:
        """Say where the notes are."""
        return [nodes.paragraph(text="The notes are in releasenotes/notes.")]


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

    if not has_history:
        app.add_directive("release-notes", NoHistory)
    app.connect("autodoc-process-docstring", join)
