# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How AWX is reached: rights, errors of the connection, what is tried again. Against a simulation of AWX's API."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from tests.functional.awx.site import TEXT, Site, refused
from tests.standins.awx import Trouble


def test_missing_permissions_are_errors(site: Site) -> None:
    organization_admin = {"CONTROLLER_OAUTH_TOKEN": "token-org-admin"}
    with pytest.raises(RailyardError) as caught:
        site.sync(**organization_admin)
    message = str(caught.value)
    assert message.startswith("credential type Railyard kubeconfig: no permission for POST credential_types (HTTP 403)")
    assert "Remedy: let a system administrator of AWX run this once" in message
    site.sync()
    assert site.sync(**organization_admin).changes == []
    with pytest.raises(RailyardError, match=r"HTTP 403.*Remedy: use a token of an administrator of the organization"):
        site.sync(TEXT.replace("forks: 64", "forks: 32"), CONTROLLER_OAUTH_TOKEN="token-auditor")


def test_instance_groups_need_the_right_to_use_them(site: Site) -> None:
    """An administrator of an organization does not see other groups."""
    number = site.awx.add("instance_groups", name="far")["id"]
    text = TEXT.replace("templates:\n", "instance_groups: [far]\ntemplates:\n", 1)
    site.sync(text)
    with pytest.raises(RailyardError, match="no permission to see it.*or give this user the right to use it there"):
        site.sync(text, CONTROLLER_OAUTH_TOKEN="token-org-admin")
    site.awx.usable.add(number)
    assert site.sync(text, CONTROLLER_OAUTH_TOKEN="token-org-admin").changes == []


def test_a_member_gets_a_remedy(site: Site) -> None:
    with pytest.raises(RailyardError, match=r"HTTP 403.*Remedy: "):
        site.sync(CONTROLLER_OAUTH_TOKEN="token-member")


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"CONTROLLER_OAUTH_TOKEN": "x"}, "does not accept the token or password (HTTP 401)"),
        ({"CONTROLLER_OAUTH_TOKEN": ""}, "CONTROLLER_OAUTH_TOKEN: there is no token for"),
        ({"CONTROLLER_HOST": "http://127.0.0.1:9"}, "http://127.0.0.1:9 cannot be reached: "),
        ({"CONTROLLER_HOST": "http://["}, "CONTROLLER_HOST: "),
        ({"CONTROLLER_OPTIONAL_API_URLPATTERN_PREFIX": "/api/controller/"}, "there is no API of AWX at http://127"),
        ({"CONTROLLER_REQUEST_TIMEOUT": "soon"}, "CONTROLLER_REQUEST_TIMEOUT: soon is not a number of seconds"),
    ],
)
def test_awx_cannot_be_asked(environment: dict[str, str], message: str, check: bool, site: Site) -> None:
    assert message in refused(site, check=check, **environment)


def test_a_page_in_place_of_the_api(site: Site) -> None:
    site.awx.page = "<html>Sign in</html>"
    message = refused(site)
    assert "the answer is not JSON" in message and "CONTROLLER_OPTIONAL_API_URLPATTERN_PREFIX" in message


def test_another_path_of_the_api(site: Site) -> None:
    site.awx.prefix = "/api/controller/v2/"
    site.sync(CONTROLLER_OPTIONAL_API_URLPATTERN_PREFIX="/api/controller/")
    assert site.awx.names("projects") == ["Railyard"]


def test_certificates_are_checked(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=awx -addext subjectAltName=IP:127.0.0.1"
    command = ["openssl", *words.split(), "-keyout", "key", "-out", "cert"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert", tmp_path / "key")
    site.server.socket = context.wrap_socket(site.server.socket, server_side=True)
    host = "https://127.0.0.1:%d" % site.server.server_port
    message = refused(site, CONTROLLER_HOST=host)
    assert "cannot be reached" in message and "Remedy: install AWX's certificate authority here" in message
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert"))
    site.sync(CONTROLLER_HOST=host)
    monkeypatch.delenv("SSL_CERT_FILE")
    assert site.sync(CONTROLLER_HOST=host, CONTROLLER_VERIFY_SSL="false").changes == []


def test_a_proxy_of_the_environment_is_used(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://user:hush@127.0.0.1:%d" % site.server.server_port)
    site.sync(CONTROLLER_HOST="http://awx.example:8052")
    assert site.awx.names("projects") == ["Railyard"]
    monkeypatch.setenv("no_proxy", "awx.example")
    assert "http://awx.example:8052 cannot be reached" in refused(site, CONTROLLER_HOST="http://awx.example:8052")
    monkeypatch.setenv("http_proxy", "http://[")
    assert "HTTP_PROXY: " in refused(site, CONTROLLER_HOST="http://other.example")


def test_a_password_in_place_of_a_token(site: Site) -> None:
    assert "(HTTP 401)" in refused(
        site, CONTROLLER_OAUTH_TOKEN="", CONTROLLER_USERNAME="admin", CONTROLLER_PASSWORD="wrong"
    )
    site.awx.tokens["YWRtaW46aHVzaA=="] = "admin"
    site.sync(CONTROLLER_OAUTH_TOKEN="", CONTROLLER_USERNAME="admin", CONTROLLER_PASSWORD="hush")


@pytest.mark.parametrize("status", [0, 502, 503])
@pytest.mark.parametrize("after", [False, True])
def test_a_request_whose_answer_is_lost_is_sent_again(status: int, after: bool, site: Site) -> None:
    """Also where AWX has carried it out: an object is then found by its name, and not made twice."""
    paths = ("credentials/$", "projects/$", "job_templates/$", "workflow_job_template_nodes/$", "/survey_spec/$")
    paths += ("/[0-9]+/credentials/$", "/create_approval_template/$", "schedules/$")
    site.awx.troubles = [Trouble("POST", path, status, after=after) for path in paths]
    site.awx.troubles += [Trouble("GET", "organizations/", status, times=2)]
    site.sync()
    assert all(site.awx.names(kind) == sorted(set(site.awx.names(kind))) for kind in ("credentials", "job_templates"))
    assert site.sync().changes == []


def test_an_association_whose_answer_is_lost_is_removed_again(made: Site) -> None:
    """AWX deletes a label with its last use, and refuses to remove it once more."""
    text = TEXT.replace("templates:\n", "labels: [ai]\ntemplates:\n", 1)
    made.sync(text)
    number = next(iter(made.awx.tables["labels"]))
    holders = [(kind, item) for (kind, item, what), ids in made.awx.links.items() if what == "labels" and number in ids]
    kind, item = holders[-1]
    for each in holders[:-1]:
        made.awx.links[(*each, "labels")].clear()
    made.awx.troubles = [Trouble("POST", "%s/%d/labels/$" % (kind, item), after=True)]
    made.sync(text.replace("[ai]", "[]"))
    assert made.awx.names("labels") == [] and made.sync(text.replace("[ai]", "[]")).changes == []
    # one that AWX refuses for another reason stays an error
    made.awx.troubles = [Trouble("POST", "/labels/$", after=False)]
    made.awx.refusals = {"labels": {"name": ["is refused"]}}
    with pytest.raises(RailyardError, match="is refused"):
        made.sync(text)


def test_an_awx_that_stays_down_is_one_line_and_the_next_run_continues(site: Site) -> None:
    site.awx.troubles = [Trouble("POST", "workflow_job_templates/$", 502, times=99)]
    with pytest.raises(RailyardError, match=r"HTTP 502.*Remedy: check that AWX runs, and run this again"):
        site.sync()
    site.awx.troubles = []
    site.sync()
    assert site.sync().changes == []


def test_no_secret_is_in_an_error(site: Site) -> None:
    site.awx.refusals = {"credentials": {"inputs": {"ssh_key_data": "KEY-of-nodes is wrong"}}}
    with pytest.raises(RailyardError) as caught:
        site.sync()
    assert "KEY-of" not in str(caught.value) and "(secret) is wrong" in str(caught.value)
