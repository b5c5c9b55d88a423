# SPDX-License-Identifier: Apache-2.0
"""The code in the documentation is run, and prints what is shown there."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import reportclient
from reportclient import exceptions
from reportclient.cli.main import main
from reportclient.drivers.desired import load

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page.name
    for page in (ROOT / "docs").glob("*.rst")
    if ".. code-block:: python" in page.read_text()
)
_RST = re.compile(
    r"^\.\. code-block:: (?P<kind>\w+)\n(?P<options>(?:   :.*\n)*)\n(?P<body>(?:(?:   .*)?\n)+)",
    re.M,
)
_MARKDOWN = re.compile(r"^```(?P<kind>\w+)\n(?P<body>.*?)^```$", re.M | re.S)


def blocks(page: str) -> list[tuple[str, str, str]]:
    """The code blocks of a page: language, caption and text."""
    text = (ROOT / page).read_text() + "\n"
    if page.endswith(".md"):
        return [(m["kind"], "", m["body"]) for m in _MARKDOWN.finditer(text)]
    return [
        (
            m["kind"],
            m["options"].strip().removeprefix(":caption: "),
            textwrap.dedent(m["body"]).strip() + "\n",
        )
        for m in _RST.finditer(text)
    ]


def run_page(page: str) -> None:
    """Run all Python of a page in one namespace; compare what is printed."""
    namespace: dict[str, object] = {"__name__": page}
    printed = ""
    for kind, _, body in blocks(page):
        if kind == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(body, page, "exec"), namespace)
            printed = out.getvalue()
        elif kind == "text":
            assert printed == body


def test_pages_are_found():
    assert {"quickstart.rst", "drivers.rst", "agents.rst", "testing.rst"} <= set(PAGES)
    kinds = [kind for kind, _, _ in blocks("docs/quickstart.rst")]
    assert kinds.count("python") >= 6
    assert kinds.count("text") >= 3


@pytest.mark.parametrize("page", [page for page in PAGES if page != "testing.rst"])
def test_code_of_a_page(page, tmp_path, monkeypatch):
    # Blocks with a caption are files, and the code finds them.
    monkeypatch.chdir(tmp_path)
    for _, caption, body in blocks(f"docs/{page}"):
        if caption:
            (tmp_path / caption).write_text(body)
    run_page(f"docs/{page}")


def test_code_of_the_readme():
    run_page("README.md")


def test_tests_that_are_shown_pass(tmp_path):
    body = "\n".join(body for kind, _, body in blocks("docs/testing.rst") if kind == "python")
    (tmp_path / "test_shown.py").write_text(body)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert f"{body.count('def test_')} passed" in done.stdout


def test_tree_in_the_docs_is_a_tree(tmp_path):
    """The YAML that is shown is one that ``report --file`` takes."""
    shown = next(body for kind, _, body in blocks("docs/drivers.rst") if kind == "yaml")
    path = tmp_path / "tree.yaml"
    path.write_text(shown)
    assert [provider.name for provider in load(path).walk()] == ["$NODENAME", "$NODENAME_pdu"]


def test_commands_in_the_docs_can_be_parsed(capsys):
    """Each ``$ reportclient ...`` of the docs and the README is a command line that exists."""
    lines = [
        line.strip().removeprefix("$ ").split()
        for page in ("docs/operators.rst", "README.md")
        for _, _, body in blocks(page)
        for line in body.splitlines()
        if line.strip().removeprefix("$ ").startswith("reportclient ")
    ]
    assert len(lines) >= 6
    for line in lines:
        with pytest.raises(SystemExit) as caught:
            main([*line[1:], "--help"])
        assert caught.value.code == 0
    assert "usage:" in capsys.readouterr().out


def test_every_public_name_is_in_the_reference():
    text = (ROOT / "docs" / "reference.rst").read_text()
    assert "automodule:: reportclient.exceptions\n" in text
    names = set(reportclient.__all__) - {*exceptions.__all__, "exceptions"}
    assert [name for name in names if f"reportclient.{name}\n" not in text] == []


def test_names_for_those_who_come_from_nova():
    """Each of nova's names in the table is a method here, or is said not to be."""
    page = (ROOT / "docs" / "from_nova.rst").read_text()
    rows = re.findall(r"^   \* - (.*)\n     -", page, re.M)
    names = [name for row in rows for name in re.findall(r"``(\w+)``", row)]
    assert len(names) >= 34
    gone = {"get", "post", "put", "delete", "report_client_singleton"}
    assert {name for name in names if not hasattr(reportclient.ReportClient, name)} == gone
