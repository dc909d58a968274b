"""Who may see and do what at the dashboard."""

from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient
from tests.unit.web.conftest import BASE, TOKEN, Browser, RunWriter
from tests.unit.web.findings import item, project, review

from pipeline.web.security import AccessPolicy

RUNS = "/s/shop/runs"
FINDINGS = "/s/shop/findings"
EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>"


async def _act(request: Request) -> Response:
    return PlainTextResponse(f"done {request.method}")


def with_action(browser: TestClient) -> TestClient:
    """A browser at a site with a page that changes something."""
    browser.app.router.routes.append(Route("/action", _act, methods=["POST", "DELETE"]))  # type: ignore[attr-defined]  # TestClient's app is any ASGI app
    return browser


@pytest.mark.parametrize(
    "path",
    [
        *("/", RUNS, f"{RUNS}?format=json", "/s/shop/events", "/nothing", "/?token=wrong"),
        *(FINDINGS, f"{FINDINGS}?format=json", f"{FINDINGS}/1", f"{FINDINGS}/export/json"),
    ],
)
@pytest.mark.parametrize("token", ["", "wrong", "the-token-and-more", "the-töken"])
def test_nothing_is_shown_without_the_token(
    browser: Browser, writer: RunWriter, store: Path, path: str, token: str
) -> None:
    """No page, list or stream answers without the right token."""
    writer.begin("r1", goal="a secret goal")
    add_finding(store.parent, title="a secret finding")
    answer = browser(token="").get(path, headers={b"Cookie": f"awf-8765={token}".encode()})
    assert answer.status_code == 401
    assert "secret" not in answer.text


def test_the_token_leaves_the_address_at_once(browser: Browser) -> None:
    """The address with the token sets a cookie for this site only, and leads to one without it."""
    client = browser(token="")
    answer = client.get(f"{RUNS}?q=a%26b&token={TOKEN}")
    assert answer.status_code == 303
    assert answer.headers["location"] == f"{RUNS}?q=a%26b"
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("awf-8765=the-token;")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert client.get(RUNS).status_code == 200


def test_the_redirect_leads_to_no_other_site(browser: Browser) -> None:
    """A path that looks like another host stays a path."""
    answer = browser(token="").get(f"{BASE}//evil.example/x?token={TOKEN}")
    assert answer.headers["location"] == "/evil.example/x"


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8765", "127.0.0.1", "127.0.0.1:1", "a@127.0.0.1:8765", "", "[", "127.0.0.1:x"],
)
def test_another_host_is_refused(browser: Browser, host: str) -> None:
    """A name that another site points at this machine gets nothing, even with the token."""
    for path in (RUNS, FINDINGS, f"{FINDINGS}/export/json"):
        assert browser().get(path, headers={"Host": host}).status_code == 421
    assert browser().post(f"{FINDINGS}/triage", headers={"Host": host, "Origin": f"http://{host}"}).status_code == 421


@pytest.mark.parametrize(
    ("bound", "host", "ours"),
    [
        ("127.0.0.1", "localhost:80", True),
        ("127.0.0.1", "LOCALHOST", True),
        ("127.0.0.1", "[::1]:80", True),
        ("localhost", "127.0.0.1:80", True),
        ("127.0.0.1", "192.168.0.2:80", False),
        ("192.168.0.2", "192.168.0.2:80", True),
        ("192.168.0.2", "localhost:80", False),
        ("::", "192.168.0.2:80", True),
        ("::", "[fe80::1]:80", True),
        ("::", "here:80", True),
        ("::", "elsewhere:80", False),
    ],
)
def test_which_names_are_ours(bound: str, host: str, ours: bool) -> None:  # noqa: FBT001 - a column of the table
    """A server answers to what it listens on; others can point a name at it, but not an address."""
    assert AccessPolicy("t", bound, 80, names=("here",)).is_ours(host) is ours


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": BASE}, 200),
        ({"Origin": BASE, "Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:9999"}, 403),
        ({"Origin": "http://localhost:8765"}, 403),
        ({"Origin": "https://127.0.0.1:8765"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": BASE, "Sec-Fetch-Site": "same-site"}, 403),
    ],
)
def test_only_our_own_pages_change_something(browser: Browser, headers: dict[str, str], status: int) -> None:
    """A change is made only for a page of this server, even with the cookie."""
    client = with_action(browser())
    assert client.post("/action", headers=headers).status_code == status
    assert client.delete("/action", headers=headers).status_code == status


def test_changes_need_the_token(browser: Browser) -> None:
    """The right origin alone is not enough, and a token in the address changes nothing."""
    client = with_action(browser(token=""))
    assert client.post("/action", headers={"Origin": BASE}).status_code == 401
    assert client.post(f"/action?token={TOKEN}", headers={"Origin": BASE}).status_code == 401


def test_read_only_refuses_every_change(browser: Browser) -> None:
    """With --read-only nothing can be changed; pages can be read."""
    client = with_action(browser(read_only=True))
    answer = client.post("/action", headers={"Origin": BASE})
    assert answer.status_code == 403
    assert client.get(RUNS).status_code == 200


@pytest.mark.parametrize("path", [RUNS, "/nothing", "/static/awf.js", "/static/nothing", "/crash"])
def test_every_response_has_the_security_headers(browser: Browser, path: str) -> None:
    """Pages, files and errors, even of a crash, have the content policy and are not cached."""

    async def crash(request: Request) -> Response:
        raise RuntimeError(request.url.path)

    client = browser()
    client.app.router.routes.append(Route("/crash", crash))  # type: ignore[attr-defined]  # as above
    answer = client.get(path)
    assert answer.headers["content-security-policy"].startswith(
        "default-src 'none'; script-src 'self'; style-src 'self'"
    )
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["referrer-policy"] == "same-origin"


@pytest.mark.parametrize(
    "path", ["/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static//etc/passwd"]
)
def test_static_files_are_those_of_the_site(browser: Browser, path: str) -> None:
    """No path leads out of the static files."""
    answer = browser().get(path)
    assert answer.status_code == 404
    assert "create" not in answer.text


def test_texts_of_runs_are_escaped(browser: Browser, writer: RunWriter) -> None:
    """Goals, workflow names and words in an address are shown as text; no page has inline code."""
    evil = EVIL
    writer.begin("r1", goal=f'"{evil}', name="<script>bad()</script>")
    client = browser()
    for path in (RUNS, f"{RUNS}?part=rows", f"{RUNS}?q={evil}", f"{RUNS}?q=zzz{evil}", f"/{evil}", f"/s/{evil}/runs"):
        text = client.get(path).text
        assert "<script>" not in text
        assert "<img" not in text
        assert " style=" not in text
    assert "&lt;script&gt;bad()" in client.get(RUNS).text


@pytest.mark.parametrize("action", ["preview", "triage", "split"])
@pytest.mark.parametrize(
    "headers", [{}, {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}]
)
def test_no_other_site_decides_about_findings(
    browser: Browser, store: Path, action: str, headers: dict[str, str]
) -> None:
    """A form on another site is refused, even with the cookie, and the finding is unchanged."""
    add_finding(store.parent)
    client = browser()
    form = {"id": "1", "as": "wont-fix", "note": "because"}
    assert client.post(f"{FINDINGS}/{action}", data=form, headers=headers).status_code == 403
    assert client.get(f"{FINDINGS}/1?format=json").json()["state"] == "open"


@pytest.mark.parametrize(
    "name",
    [
        "..%2f..%2fetc%2fpasswd",
        "%2e%2e%2f",
        "....//",
        "%00",
        "fnd_/../../x",
        "export/../../../x",
        "%ff",
    ],
)
def test_names_of_findings_lead_to_no_file(browser: Browser, store: Path, name: str) -> None:
    """A name with dots, slashes or odd bytes finds nothing, or another page of the site."""
    add_finding(store.parent)
    (store.parent.parent / "x").write_text("top secret")
    for path in (f"{FINDINGS}/{name}", f"{FINDINGS}/export/{name}"):
        answer = browser().get(f"{BASE}{path}")
        assert answer.status_code in (307, 404)
        assert answer.headers.get("location", BASE).startswith(BASE)
        assert "secret" not in answer.text


def test_texts_of_findings_are_escaped(browser: Browser, store: Path) -> None:
    """Titles, file names, lines of files, reviewers and reasons are shown as text on every page about findings."""
    name = "<img src=x onerror=alert(1)>.py"
    project(store.parent)
    (store.parent / name).write_text(f"{EVIL}\n")
    fields = {"title": EVIL, "file": name, "line": 1, "why_it_matters": EVIL, "evidence": [f"{name}:1 -- {EVIL}"]}
    review(store.parent, item(1, **fields, suggested_fix=EVIL), reviewer=f"r{EVIL}")
    client = browser()
    form = {"id": "1", "as": "wont-fix", "note": EVIL, "from": f"q={EVIL}"}
    ours = {"Sec-Fetch-Site": "same-origin"}
    pages = [
        *(client.get(path).text for path in (FINDINGS, f"{FINDINGS}/1", f"{FINDINGS}?part=rows", f"{FINDINGS}/{EVIL}")),
        *(client.get(f"{FINDINGS}?{field}={EVIL}").text for field in ("q", "file", "stage", "reviewer", "state")),
        client.post(f"{FINDINGS}/preview", data=form, headers=ours).text,
        client.post(f"{FINDINGS}/preview?part=plan", data={**form, "id": EVIL}, headers=ours).text,
    ]
    client.post(f"{FINDINGS}/triage", data=form, headers=ours)
    pages.append(client.get(f"{FINDINGS}/1").text)
    for text in pages:
        assert "<script>" not in text
        assert "<img" not in text
        assert " style=" not in text
    assert all("&lt;script&gt;alert(1)" in text for text in pages)


def test_downloads_are_not_pages(browser: Browser, store: Path) -> None:
    """A browser saves an export, whatever is in it, and never shows it as a page."""
    add_finding(store.parent, title=EVIL)
    for form in ("sarif", "rdjson", "markdown", "json", "review"):
        answer = browser().get(f"{FINDINGS}/export/{form}")
        assert answer.headers["content-disposition"].startswith("attachment;")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert not answer.headers["content-type"].startswith("text/html")


def add_finding(root: Path, title: str = "Line 1 is wrong") -> None:
    """A project with one finding."""
    project(root)
    review(root, item(1, title=title))
