# SPDX-License-Identifier: Apache-2.0
"""What users import, and what they get when they install."""

from __future__ import annotations

import ast
import configparser
import importlib
import importlib.metadata
import importlib.resources
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import reportclient
from reportclient import exceptions

ROOT = Path(__file__).parents[2]
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(reportclient.__path__, "reportclient.")
    if not module.name.endswith("__main__")
)
SOURCES = sorted(
    path
    for folder in ("reportclient", "tests", "bench", "docs")
    for path in (ROOT / folder).rglob("*.py")
)
EXTRAS = ("openstack", "rich", "yaml", "jsonschema", "psutil", "placement", "webob")


def test_all_names_of_the_package_are_there():
    for name in reportclient.__all__:
        assert getattr(reportclient, name).__doc__
    assert len(set(reportclient.__all__)) == len(reportclient.__all__)


@pytest.mark.parametrize("module", MODULES)
def test_all_is_complete(module):
    """Every public class and function of a module is in its ``__all__``, and the reverse."""
    found = importlib.import_module(module)
    own = {
        name
        for name, value in vars(found).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module
    }
    listed = set(getattr(found, "__all__", ()))
    assert own <= listed
    assert all(hasattr(found, name) for name in listed)


@pytest.mark.parametrize("module", MODULES)
def test_what_is_public_is_explained(module):
    found = importlib.import_module(module)
    assert found.__doc__
    for name in getattr(found, "__all__", ()):
        value = getattr(found, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert value.__doc__, f"{module}.{name}"


def test_exceptions_are_all_drawn():
    """The tree in the docstring is the tree in the code."""
    drawn = set(re.findall(r"\w+", exceptions.__doc__))
    assert set(exceptions.__all__) <= drawn
    for name in exceptions.__all__:
        assert issubclass(getattr(exceptions, name), exceptions.ReportClientError)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_sources_name_their_licence(path):
    first = path.read_text().partition("\n")[0]
    assert first == "# SPDX-License-Identifier: Apache-2.0"


def test_typed():
    assert (importlib.resources.files(reportclient) / "py.typed").is_file()


def test_core_needs_no_extra():
    """Library, drivers and options can be imported with the core dependencies alone."""
    code = (
        "import sys\n"
        f"for name in {EXTRAS!r}: sys.modules[name] = None\n"
        "import reportclient, reportclient.config, reportclient.drivers, reportclient.cli.main\n"
        "import reportclient.testing.embedded\n"
        "tree = reportclient.ProviderTree()\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_importing_starts_nothing():
    code = (
        "import threading, sys\n"
        "import reportclient\n"
        "assert threading.active_count() == 1\n"
        f"assert not set({EXTRAS!r}) & set(sys.modules), set({EXTRAS!r}) & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def _metadata():
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


def test_entry_points_can_be_loaded():
    found = importlib.metadata.distribution("reportclient").entry_points
    groups = {point.group for point in found}
    assert groups == {"console_scripts", "pytest11", "oslo.config.opts"}
    for point in found:
        assert point.load()


def test_test_extra_has_all_that_tests_need():
    extras = _metadata()["options.extras_require"]
    everything = re.search(r"reportclient\[([\w,]+)\]", extras["test"])[1].split(",")
    assert set(everything) == set(extras) - {"test", "lint", "docs", "demo"}


def test_every_import_is_a_declared_dependency():
    declared = {
        re.split(r"[\[<>=]", line.strip())[0].lower().replace("-", "_").replace(".", "_")
        for section, option in [
            ("options", "install_requires"),
            *(("options.extras_require", name) for name in ("cli", "host", "embedded")),
        ]
        for line in _metadata()[section][option].splitlines()
        if line.strip() and not line.strip().startswith("#")
    }
    # What a distribution is called, where that is not what is imported; and
    # what the service brings along.
    names = {
        "yaml": "pyyaml",
        "openstack": "openstacksdk",
        "placement": "openstack_placement",
        "webob": "openstack_placement",
        "oslo_db": "openstack_placement",
        "oslo_policy": "openstack_placement",
        "urllib3": "requests",
    }
    for path in (ROOT / "reportclient").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            imported = []
            if isinstance(node, ast.Import):
                imported = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported = [node.module]
            for name in imported:
                top = name.partition(".")[0]
                if top in sys.stdlib_module_names or top in ("reportclient", "pytest"):
                    continue
                assert names.get(top, top).lower() in declared, f"{path}: {name}"


@pytest.mark.parametrize("tool", ["tools/demo", "tools/test", ".ci/run"])
def test_commands_can_be_run(tool):
    assert (ROOT / tool).stat().st_mode & 0o111
    subprocess.run(
        ["sh", "-n", ROOT / tool] if tool != ".ci/run" else ["bash", "-n", ROOT / tool], check=True
    )


def test_readme_names_the_commands():
    text = (ROOT / "README.md").read_text()
    assert "tools/demo" in text
    assert "tools/test" in text


def test_hooks_and_extra_use_one_formatter():
    """Two versions of a formatter would undo each other's work."""
    wanted = re.search(r"^ruff(\S+)$", _metadata()["options.extras_require"]["lint"], re.M)[1]
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    assert set(re.findall(r'"ruff([^"]+)"', hooks)) == {wanted}


def test_architecture_names_every_room():
    table = (ROOT / "ARCHITECTURE.md").read_text().partition("## A pass")[0]
    named = {name.rstrip("/") for name in re.findall(r"`([\w/]+)`", table)}
    tops = {name.split(".")[1] for name in MODULES}
    assert tops <= named
