# SPDX-License-Identifier: Apache-2.0
"""``report`` and ``show`` against a Placement on a socket, and all that can be in the way."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import socket
import subprocess
import sys
import threading
import uuid

import pytest
import yaml

from reportclient import exceptions, provider_uuid
from reportclient.cli import errors, machine, options, report
from reportclient.cli.main import main
from reportclient.testing.embedded import EmbeddedPlacement

ROOT = "4281512a-c1b8-4afe-b6c1-c25567f02c0a"
SECRET = "do-not-print-me"
TREE = {
    "name": "rack-1",
    "uuid": ROOT,
    "inventories": {"CUSTOM_SLOT": {"total": 8, "reserved": 1}},
    "traits": ["CUSTOM_ROOM_B"],
    "children": [{"name": "$NODENAME_pdu", "inventories": {"CUSTOM_OUTLET": {"total": 24}}}],
}


@pytest.fixture(autouse=True)
def no_cloud(monkeypatch, tmp_path):
    """Nothing of the machine that the tests run on: no variables, no clouds.yaml."""
    for name in list(os.environ):
        if name.startswith("OS_") or name == "COLUMNS":
            monkeypatch.delenv(name)
    # openstacksdk looks around for files when it is imported: name one.
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(tmp_path / "clouds.yaml"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def placement():
    with EmbeddedPlacement() as service:
        yield service


@pytest.fixture
def operator(placement):
    return placement.operator


@pytest.fixture
def url(placement):
    with placement.serve() as address:
        yield address


@pytest.fixture
def cloud(url, monkeypatch):
    """The embedded Placement by its URL, the token in the environment."""
    monkeypatch.setenv("OS_TOKEN", "admin")
    return ["--url", url]


@pytest.fixture
def tree_file(tmp_path):
    path = tmp_path / "tree.yaml"
    path.write_text(yaml.safe_dump(TREE))
    return str(path)


@pytest.fixture
def run(capsys):
    """Run a command; its exit status, output and error output."""

    def run(*arguments):
        try:
            status = main(list(arguments))
        except SystemExit as error:  # argparse's
            status = error.code
        out, err = capsys.readouterr()
        assert SECRET not in out + err
        return status, out, err

    return run


@contextlib.contextmanager
def serving(answer, wrap=lambda sock: sock):
    """A web server on loopback: ``answer(method, path) -> (status, headers, body)``."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def _answer(self):
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, headers, body = answer(self.command, self.path)
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            for name, value in {"Content-Length": len(content), **headers}.items():
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = _answer  # noqa: N815

        def log_message(self, *_):
            """Say nothing."""

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    server.socket = wrap(server.socket)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


JSON = {"Content-Type": "application/json"}


def versions(address):
    """What an identity service says of its versions: nothing but v3."""
    link = {"rel": "self", "href": f"{address}/v3/"}
    return {"version": {"id": "v3.14", "status": "stable", "links": [link]}}


@contextlib.contextmanager
def keystone(endpoints):
    """An identity service that lets everybody in; ``endpoints``: interface -> URL."""
    listed = [
        {"id": interface, "interface": interface, "region_id": "here", "region": "here", "url": at}
        for interface, at in endpoints.items()
    ]
    service = {"type": "placement", "name": "placement", "id": "p", "endpoints": listed}
    token = {
        "methods": ["password"],
        "user": {"id": "u", "name": "agent", "domain": {"id": "default", "name": "Default"}},
        "project": {"id": "p", "name": "service", "domain": {"id": "default", "name": "Default"}},
        "roles": [{"id": "s", "name": "service"}],
        "issued_at": "2026-01-01T00:00:00.000000Z",
        "expires_at": "2099-01-01T00:00:00.000000Z",
        "catalog": [service] if endpoints else [],
    }

    def answer(method, path):
        if method == "POST":
            return 201, {"X-Subject-Token": SECRET, **JSON}, {"token": token}
        return 200, JSON, versions(address)

    with serving(answer) as address:
        yield f"{address}/v3"


def credentials(monkeypatch, auth_url, **more):
    for name, value in {
        "AUTH_URL": auth_url,
        "USERNAME": "agent",
        "PASSWORD": SECRET,
        "PROJECT_NAME": "service",
        "USER_DOMAIN_ID": "default",
        "PROJECT_DOMAIN_ID": "default",
        "REGION_NAME": "here",
        **more,
    }.items():
        monkeypatch.setenv(f"OS_{name}", value)


# -- report --------------------------------------------------------------------------


def test_report_this_machine(run, cloud, operator):
    status, out, err = run("report", *cloud, "--name", "host-1", "--uuid", ROOT)
    assert (status, err) == (0, "")
    assert f"host-1 ({ROOT}): created" in out
    assert "requests in all" in out
    there = operator.provider(ROOT)
    assert there["name"] == "host-1"
    status, out, _ = run("report", *cloud, "--name", "host-1", "--uuid", ROOT)
    assert f"host-1 ({ROOT}): up to date" in out


def test_report_reserves_what_is_asked_for(run, cloud, operator):
    arguments = ("report", *cloud, "--name", "h", "--uuid", ROOT)
    assert run(*arguments, "--reserved-host-disk-mb", "1025")[0] == 0
    reserved = [
        operator.provider(each)["inventory"].get("DISK_GB", {}).get("reserved")
        for each in operator.providers().values()
    ]
    assert 2 in reserved
    status, _, err = run(*arguments, "--reserved-host-cpus", "1000000")
    assert status == 2
    assert "reserved_host_cpus" in err
    assert "1000000" in err


def test_report_uses_the_machines_id(run, cloud, operator, monkeypatch, tmp_path):
    path = tmp_path / "machine-id"
    path.write_text("0123456789abcdef0123456789abcdef\n")
    monkeypatch.setattr(machine, "MACHINE_ID", path)
    monkeypatch.setattr("platform.node", lambda: "node-7")
    status, out, _ = run("report", *cloud, "--json")
    assert status == 0
    expected = provider_uuid("01234567-89ab-cdef-0123-456789abcdef", "reportclient", "host")
    assert json.loads(out)["uuid"] == expected
    assert operator.provider(expected)["name"] == "node-7"
    # Renamed, it is the same machine.
    assert run("report", *cloud, "--name", "node-8")[0] == 0
    assert operator.provider(expected)["name"] == "node-8"


@pytest.mark.parametrize("content", [None, "", "uninitialized\n"])
def test_report_without_a_machine_id_asks_for_a_uuid(run, cloud, monkeypatch, tmp_path, content):
    path = tmp_path / "machine-id"
    if content is not None:
        path.write_text(content)
    monkeypatch.setattr(machine, "MACHINE_ID", path)
    status, _, err = run("report", *cloud)
    assert status == 2
    assert "--uuid" in err
    assert str(path) in err


def test_report_without_a_host_name_asks_for_a_name(run, cloud, monkeypatch):
    monkeypatch.setattr("platform.node", lambda: "")
    assert run("report", *cloud, "--uuid", ROOT)[0] == 2


def test_report_json_is_one_document(run, cloud):
    status, out, err = run("report", *cloud, "--name", "h", "--uuid", ROOT, "--json")
    assert (status, err) == (0, "")
    seen = json.loads(out)
    assert seen["name"] == "h"
    assert seen["complete"] is True
    assert seen["requests"]["POST /resource_providers"] >= 1
    first = seen["providers"][0]
    assert first["created"] is True
    assert "inventory" in first["written"]


def test_report_a_file(run, cloud, operator, tree_file):
    assert run("report", *cloud, "--file", tree_file)[0] == 0
    there = operator.provider(ROOT)
    assert there["name"] == "rack-1"
    assert there["inventory"]["CUSTOM_SLOT"]["reserved"] == 1
    assert there["traits"] == ["CUSTOM_ROOM_B"]
    child = operator.provider(operator.providers()["rack-1_pdu"])
    assert child["parent"] == ROOT
    assert child["traits"] == ["CUSTOM_OWNER_FILE"]


def test_file_removes_its_own_and_with_prune_others(run, cloud, operator, tmp_path, tree_file):
    assert run("report", *cloud, "--file", tree_file)[0] == 0
    operator.create_provider("foreign", parent=ROOT)
    smaller = tmp_path / "smaller.yaml"
    smaller.write_text(yaml.safe_dump({**TREE, "children": []}))
    assert run("report", *cloud, "--file", str(smaller))[0] == 0
    assert set(operator.providers()) == {"rack-1", "foreign"}
    assert run("report", *cloud, "--file", str(smaller), "--prune")[0] == 0
    assert set(operator.providers()) == {"rack-1"}


def test_file_for_any_node(run, cloud, operator, tmp_path, monkeypatch):
    path = tmp_path / "any.json"
    path.write_text(json.dumps({"name": "$NODENAME", "inventories": {"VCPU": {"total": 2}}}))
    monkeypatch.setattr("platform.node", lambda: "node-9")
    assert run("report", *cloud, "--file", str(path))[0] == 0
    assert run("report", *cloud, "--file", str(path), "--name", "node-10")[0] == 0
    # Two nodes, not one that was renamed.
    assert set(operator.providers()) == {"node-9", "node-10"}


def test_faults_of_a_file_all_at_once_and_nothing_sent(run, cloud, placement, tmp_path):
    path = tmp_path / "bad.yaml"
    bad = {
        "name": "r",
        "inventories": {"VCPU": {"total": -1}, "vcpu": {"total": 1}},
        "traits": ["not a trait"],
    }
    path.write_text(yaml.safe_dump(bad))
    status, out, err = run("report", *cloud, "--file", str(path))
    assert (status, out) == (2, "")
    assert "total" in err
    assert "'vcpu'" in err
    assert "not a trait" in err
    assert placement.operator.providers() == {}


@pytest.mark.parametrize("option", [["--owner", "ME"], ["--prune"]])
def test_options_of_a_file_without_a_file(run, cloud, option):
    status, _, err = run("report", *cloud, *option)
    assert status == 2
    assert option[0] in err


def test_options_of_this_machine_with_a_file(run, cloud, tree_file):
    status, _, err = run("report", *cloud, "--file", tree_file, "--reserved-host-cpus", "2")
    assert status == 2
    assert "--reserved-host-cpus" in err


def test_an_empty_name_is_not_this_machine(run, cloud):
    status, _, err = run("show", *cloud, "")
    assert status == 2
    assert "empty" in err


def test_debug_says_every_request(run, cloud, tree_file, caplog):
    def said():
        return [r.getMessage() for r in caplog.records if r.name.startswith("reportclient")]

    run("-v", "report", *cloud, "--file", tree_file)
    assert not [line for line in said() if "GET /resource_providers" in line]
    run("--debug", "report", *cloud, "--file", tree_file)
    assert [line for line in said() if "GET /resource_providers" in line]


def test_dry_run_says_it_all_and_writes_nothing(run, cloud, operator, tree_file):
    status, out, err = run("report", *cloud, "--file", tree_file, "--dry-run")
    assert (status, err) == (0, "")
    assert operator.providers() == {}
    assert f"create rack-1 ({ROOT}) as a root" in out
    assert "CUSTOM_SLOT" in out
    assert "create rack-1_pdu" in out
    assert run("report", *cloud, "--file", tree_file)[0] == 0
    assert run("report", *cloud, "--file", tree_file, "--dry-run")[1] == "nothing to do\n"


def test_dry_run_of_a_rename_and_a_change(run, cloud, operator, tree_file, tmp_path):
    assert run("report", *cloud, "--file", tree_file)[0] == 0
    path = tmp_path / "new.yaml"
    new = {**TREE, "name": "rack-2", "inventories": {"CUSTOM_SLOT": {"total": 9}}, "children": []}
    path.write_text(yaml.safe_dump(new))
    status, out, _ = run("report", *cloud, "--file", str(path), "--dry-run", "--json")
    assert status == 0
    plan = json.loads(out)["plan"]
    kinds = [one["operation"] for one in plan]
    assert kinds == ["RenameProvider", "DeleteProvider", "WriteAspect"]
    assert plan[0]["old_name"] == "rack-1"
    assert any("total" in change for change in plan[2]["changes"])
    assert operator.provider(ROOT)["name"] == "rack-1"


def test_name_taken_by_another_provider(run, cloud, operator):
    holder = operator.create_provider("taken")
    status, out, err = run("report", *cloud, "--name", "taken", "--uuid", ROOT)
    assert status == 1
    assert holder in err
    assert "taken" in out


def test_what_was_done_before_a_failure_is_shown(run, cloud, operator, placement, tree_file):
    operator.create_provider("rack-1_pdu")
    status, out, err = run("report", *cloud, "--file", tree_file, "--json")
    assert status == 1
    seen = {one["name"]: one for one in json.loads(out)["providers"]}
    assert seen["rack-1"]["created"] is True
    assert seen["rack-1"]["failed"] is None
    assert "rack-1_pdu" in seen["rack-1_pdu"]["failed"]
    assert err.startswith("reportclient: ")


# -- show ------------------------------------------------------------------------------


@pytest.fixture
def told(operator):
    """A tree with a child and a sharing provider, and names that play tricks."""
    operator.create_provider("host-1", ROOT)
    child = operator.create_provider("host-1_gpu", parent=ROOT)
    aggregate = str(uuid.uuid4())
    operator.set_inventory(
        ROOT, {"VCPU": {"total": 8, "allocation_ratio": 16.0}, "MEMORY_MB": {"total": 4096}}
    )
    operator.set_traits(ROOT, {"CUSTOM_GOLD", *(f"HW_CPU_X86_AVX512{n}" for n in ("F", "CD"))})
    operator.set_aggregates(ROOT, [aggregate])
    sharing = operator.create_provider("storage [red]\x1b[2J")
    operator.set_inventory(sharing, {"DISK_GB": {"total": 500}})
    operator.set_traits(sharing, ["MISC_SHARES_VIA_AGGREGATE"])
    operator.set_aggregates(sharing, [aggregate])
    return child


@pytest.mark.parametrize("by", ["host-1", ROOT, ROOT.upper(), "host-1_gpu"])
def test_show_by_name_or_uuid_shows_the_whole_tree(run, cloud, told, by):
    status, out, err = run("show", by, *cloud)
    assert (status, err) == (0, "")
    for words in ("host-1", ROOT, told, "VCPU", "16.0", "CUSTOM_GOLD", "DISK_GB", "aggregate"):
        assert words in out
    assert "shares with this tree" in out


def test_names_play_no_tricks_on_a_terminal(run, cloud, told):
    out = run("show", "host-1", *cloud)[1]
    assert "\x1b" not in out
    assert r"storage [red]\x1b[2J" in out


def test_show_json(run, cloud, told):
    status, out, _ = run("show", "host-1", *cloud, "--json")
    assert status == 0
    seen = {one["uuid"]: one for one in json.loads(out)["providers"]}
    assert seen[ROOT]["inventory"]["VCPU"]["allocation_ratio"] == 16.0
    assert seen[told]["parent_provider_uuid"] == ROOT
    assert seen[told]["generation"] is not None
    assert [one["name"] for one in seen.values() if one.get("sharing")] == ["storage [red]\x1b[2J"]


def test_show_this_machine_by_default(run, cloud, operator, monkeypatch):
    operator.create_provider("node-7")
    monkeypatch.setattr("platform.node", lambda: "node-7")
    assert "node-7" in run("show", *cloud)[1]


def test_show_a_provider_whose_name_looks_like_a_uuid(run, cloud, operator):
    name = str(uuid.uuid4())
    operator.create_provider(name, ROOT)
    assert ROOT in run("show", name, *cloud)[1]


@pytest.mark.parametrize("wanted", ["nobody", "51fea4dc-0053-4c6d-b50d-74638cafb88a"])
def test_show_what_is_not_there(run, cloud, placement, wanted):
    status, out, err = run("show", wanted, *cloud)
    assert (status, out) == (1, "")
    assert wanted in err
    assert err.count("\n") == 1
    assert placement.operator.providers() == {}


# -- where Placement is ------------------------------------------------------------------


@pytest.mark.parametrize("way", ["variables", "clouds.yaml", "OS_CLOUD"])
def test_through_a_catalog(run, url, operator, monkeypatch, tmp_path, way):
    operator.create_provider("host-1", ROOT)
    # The stub of Placement takes any token; only the internal endpoint works.
    with keystone({"internal": url, "public": "http://127.0.0.1:1"}) as auth_url:
        arguments = ["show", "host-1", "--os-interface", "internal"]
        if way == "variables":
            credentials(monkeypatch, auth_url)
        else:
            auth = {
                "auth_url": auth_url,
                "username": "agent",
                "password": SECRET,
                "project_name": "service",
                "user_domain_id": "default",
                "project_domain_id": "default",
            }
            content = {"clouds": {"mine": {"auth": auth, "region_name": "here"}}}
            (tmp_path / "clouds.yaml").write_text(yaml.safe_dump(content))
            if way == "OS_CLOUD":
                monkeypatch.setenv("OS_CLOUD", "mine")
            else:
                arguments += ["--os-cloud", "mine"]
        status, out, err = run(*arguments)
        assert (status, err) == (0, "")
        assert ROOT in out
        # b106: the other interface is the other endpoint.
        status, _, err = run(*arguments, "--os-interface", "public")
        assert status == 3
        assert "http://127.0.0.1:1" in err


@pytest.mark.parametrize(
    ("endpoints", "words"),
    [
        ({}, "catalog is empty"),
        (
            {"admin": "http://127.0.0.1:1"},
            "public endpoint for placement service in here region not found",
        ),
    ],
)
def test_catalog_without_the_endpoint(run, monkeypatch, endpoints, words):
    with keystone(endpoints) as auth_url:
        credentials(monkeypatch, auth_url)
        status, out, err = run("show", "x")
    assert (status, out) == (3, "")
    assert "catalog" in err
    assert words in err
    assert err.count("\n") == 1


def test_b107_region_that_is_not_in_the_catalog(run, url, monkeypatch):
    with keystone({"public": url}) as auth_url:
        credentials(monkeypatch, auth_url)
        monkeypatch.delenv("OS_REGION_NAME")
        status, _, err = run("show", "x", "--os-region-name", "elsewhere")
    assert status == 3
    assert "elsewhere" in err


def _refused():
    with contextlib.closing(socket.socket()) as sock:
        sock.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{sock.getsockname()[1]}"


@pytest.mark.parametrize("command", ["report", "show"])
def test_refused(run, command):
    address = _refused()
    more = ["--uuid", ROOT, "--name", "n"] if command == "report" else ["n"]
    status, out, err = run(command, "--url", address, "--token", SECRET, *more)
    assert (status, out) == (3, "")
    assert err == f"reportclient: Placement at {address} cannot be reached: connection refused\n"


def test_unknown_host(run, monkeypatch):
    def unknown(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    status, _, err = run("show", "x", "--url", "http://nowhere.invalid", "--token", SECRET)
    assert status == 3
    assert "http://nowhere.invalid cannot be reached: unknown host" in err


def test_keystone_refused(run, monkeypatch):
    address = _refused()
    credentials(monkeypatch, address)
    status, _, err = run("show", "x")
    assert status == 3
    assert err.count("\n") == 1
    assert f"{address} cannot be reached: connection refused" in err


def test_keystone_refused_is_told_from_placement_refused(run, monkeypatch):
    address = _refused()
    with keystone({"public": address}) as auth_url:
        credentials(monkeypatch, auth_url)
        err = run("show", "x")[2]
    assert f"{address}/resource_providers: connection refused" in err


ANSWERS = {
    "unauthorized": (
        (401, {}, {"errors": [{"status": 401, "detail": "who are you"}]}),
        "not let in: who are you",
    ),
    "html": ((200, {"Content-Type": "text/html"}, b"<html>Welcome</html>"), "is not JSON"),
    "other json": ((200, {}, {"volumes": []}), "resource_providers"),
    "gateway": ((502, {}, b"<html>Bad Gateway</html>"), "502"),
    "busy": ((503, {"Retry-After": "0"}, b"later"), "503"),
    "not found": ((404, {}, b"<html>nginx</html>"), "404"),
}


@pytest.mark.parametrize("case", list(ANSWERS))
def test_answers_that_are_none(run, case):
    answer, words = ANSWERS[case]
    with serving(lambda *_: answer) as address:
        status, out, err = run("show", "x", "--url", address, "--token", SECRET)
    assert (status, out) == (3, "")
    assert address in err
    assert words in err
    assert err.count("\n") == 1


def test_forbidden_is_placements_word(run):
    body = {"errors": [{"status": 403, "detail": "Policy does not allow this"}]}
    with serving(lambda *_: (403, {}, body)) as address:
        status, _, err = run("show", "x", "--url", address, "--token", SECRET)
    assert status == 1
    assert "Policy does not allow this" in err


def test_wrong_password(run, monkeypatch):
    def answer(method, path):
        if method == "POST":
            return (
                401,
                {"Content-Type": "application/json"},
                {
                    "error": {
                        "code": 401,
                        "message": "The request you have made requires authentication.",
                        "title": "Unauthorized",
                    }
                },
            )
        return (
            200,
            {"Content-Type": "application/json"},
            versions(address),
        )

    with serving(answer) as address:
        credentials(monkeypatch, f"{address}/v3")
        status, _, err = run("show", "x")
    assert status == 3
    assert "not let in: The request you have made requires authentication" in err


def test_tls_where_there_is_none(run):
    with serving(lambda *_: (200, {}, {})) as address:
        secure = address.replace("http:", "https:")
        status, _, err = run("show", "x", "--url", secure, "--token", SECRET)
    assert status == 3
    assert "TLS" in err
    assert secure in err


def test_no_answer_in_time(run):
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        status, _, err = run("show", "x", "--url", address, "--token", SECRET, "--timeout", "0.05")
    assert status == 3
    assert f"Placement at {address} did not answer in time (see --timeout)" in err


def test_placement_gone_while_reporting(run, placement, tree_file):
    with placement.serve() as address:

        def gone(_):
            raise RuntimeError

        placement.before(("*", "*"), gone)
    status, _, err = run("report", "--file", tree_file, "--url", address, "--token", SECRET)
    assert status == 3
    assert "cannot be reached" in err


# -- what is given is wrong ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "COMMAND"),
        (["nonsense"], "nonsense"),
        (["show", "--url", "nowhere"], "--url"),
        (["show", "--url", "ftp://x"], "--url"),
        (["show", "--url", "http://x:port"], "--url"),
        (["show", "--url", "http://x y"], "--url"),
        (["show", "--url", "http://x", "--token", f"a {SECRET}"], "--token"),
        (["show", "--url", "http://x", "--token", ""], "--token"),
        (["show", "--url", "http://x", "--os-cloud", "y"], "--os-cloud"),
        (["show", "--url", "http://x"], "OS_TOKEN"),
        (["show", "--url", "http://me:secret@x"], "http://x needs a token"),
        (["show", "--os-cloud", "y", "--token", "t"], "--token"),
        (["show", "--os-cloud", "no-such"], "no-such"),
        (["show"], "no auth_url to log in with"),
        (["show", "--timeout", "0"], "--timeout"),
        (["show", "--timeout", "nan"], "--timeout"),
        (["show", "--url", "https://x", "--token", "t", "--os-cacert", "/nope"], "/nope"),
        (["report", "--uuid", "1"], "--uuid"),
        (["report", "--name", "x" * 201], "--name"),
        (["report", "--reserved-host-cpus", "-1"], "--reserved-host-cpus"),
        (["report", "--file", "/no/such/file"], "/no/such/file"),
        (["report", "--file", "/", "--owner", "me"], "cannot be read"),
    ],
)
def test_wrong_use_is_2_and_named(run, arguments, words):
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert words in err
    assert "Traceback" not in err


def test_bad_token_in_the_environment_is_not_quoted(run, monkeypatch):
    monkeypatch.setenv("OS_TOKEN", f"{SECRET}\N{SNOWMAN}")
    assert run("show", "x", "--url", "http://x")[0] == 2


def test_no_password(run, monkeypatch):
    credentials(monkeypatch, "http://127.0.0.1:1/v3", PASSWORD="")
    status, _, err = run("show", "x")
    assert status == 2
    assert "no password to log in with" in err


def test_clouds_yaml_that_is_none_is_not_quoted(run, tmp_path):
    (tmp_path / "clouds.yaml").write_text(f"clouds: [\n  password: {SECRET}\n}}\n")
    status, _, err = run("show", "x", "--os-cloud", "mine")
    assert status == 2
    assert f"{tmp_path / 'clouds.yaml'} was skipped" in err


# -- the rest --------------------------------------------------------------------------------


def as_a_program(*arguments):
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "reportclient", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("before", [True, False])
def test_debug_shows_the_traceback_and_no_token(before):
    arguments = ["show", "x", "--url", _refused(), "--token", SECRET]
    done = as_a_program(*(["--debug", *arguments] if before else [*arguments, "--debug"]))
    assert done.returncode == 3
    assert "Traceback" in done.stderr
    assert "reportclient: Placement at" in done.stderr
    assert SECRET not in done.stderr


def test_quiet_by_default_and_verbose_on_request(cloud):
    arguments = ["report", *cloud, "--name", "n", "--uuid", ROOT]
    first = as_a_program(*arguments, "-v")
    assert (first.returncode, "INFO: " in first.stderr) == (0, True)
    assert "n" in first.stderr
    second = as_a_program(*arguments)
    assert (second.returncode, second.stderr) == (0, "")


def test_help_and_version_need_no_extra():
    """And they are quick: nothing that only a command needs is imported."""
    code = (
        "import sys\n"
        "from reportclient.cli.main import main\n"
        "heavy = 'rich openstack yaml jsonschema psutil placement'.split()\n"
        "for name in heavy: sys.modules[name] = None\n"
        "for arguments in (['--help'], ['demo', '--help'], ['report', '--help'],\n"
        "                  ['show', '--help'], ['--version']):\n"
        "    try: main(arguments)\n"
        "    except SystemExit as end: assert end.code == 0\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "Exit status" in done.stdout


@pytest.mark.parametrize(
    ("package", "arguments", "extra"),
    [
        ("rich", ["show", "x"], "cli"),
        ("rich", ["demo"], "cli"),
        ("openstack", ["show", "x"], "cli"),
        ("yaml", ["report", "--file", "x"], "cli"),
        ("jsonschema", ["report", "--file", "x"], "cli"),
        ("placement", ["demo"], "embedded"),
    ],
)
def test_missing_extra_is_named_in_one_line(tmp_path, package, arguments, extra):
    (tmp_path / "x").write_text("{}")
    code = (
        "import sys\n"
        f"sys.modules[{package!r}] = None\n"
        "from reportclient.cli.main import main\n"
        f"sys.exit(main({arguments!r}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert f"reportclient[{extra}]" in done.stderr


def test_interrupt_is_no_traceback(run, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(report, "command", interrupt)
    assert run("report") == (130, "", "reportclient: interrupted\n")


def test_reader_that_has_seen_enough(cloud, told):
    """As in ``reportclient show host-1 | head -0``."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "reportclient", "show", "host-1", *cloud],
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    finally:
        os.close(writer)
    assert done.stderr == ""
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (exceptions.ConnectFailed(), 3),
        (exceptions.Unauthorized(), 3),
        (exceptions.SyncUnavailable(), 3),
        (exceptions.ConfigurationError(), 2),
        (exceptions.InvalidProviderTree(), 2),
        (exceptions.Forbidden(), 1),
        (exceptions.ResourceProviderSyncFailed(), 1),
        (ImportError("x"), 1),
    ],
)
def test_exit_status(error, status):
    assert errors.exit_status(error) == status


def test_urls_are_shown_without_secrets():
    shown = options.shown_url(f"https://me:{SECRET}@host:8778/placement?token={SECRET}#x")
    assert shown == "https://host:8778/placement"
