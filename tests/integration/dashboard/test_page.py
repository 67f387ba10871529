"""The page of csctl ui in a real browser, with the documents that the verb computes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.csctl.verbs import cluster_drift
from clusterstacks.csctl.verbs.cluster_drift import Compared, Found
from clusterstacks.csctl.verbs.ui import SHOWN_EVENTS
from clusterstacks.deliver.apply.drift_rules import CHANGED, ChangedField, DriftedObject
from clusterstacks.deliver.apply.health import UnhealthyObject
from clusterstacks.deliver.apply.health_rules import Health, HealthState
from clusterstacks.model.kinds.names import Kind
from clusterstacks.model.objects import ObjectId
from clusterstacks.net.kube.errors import Forbidden
from tests.support.builders.fleets import (
    NEW,
    OLD,
    Fleet,
    ago,
    condition,
    conditions,
    delivery,
    drifted,
    management_cluster,
)
from tests.support.running.axe import violations
from tests.support.running.chromium import open_page
from tests.support.running.page import served_page

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from clusterstacks.net.kube.resources import ObjectList, Resource
    from tests.support.running.chromium import Page

SCREENSHOTS = Path(__file__).parents[3] / "docs" / "how-to" / "screenshots"

KEEP = "KEEP_SCREENSHOTS"
"""Environment variable with which the screenshots of the documentation are replaced."""

HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script> javascript:alert(3) \u202eevil"

QUICK_TICKS = """
var ticks = 0;
const realInterval = window.setInterval;
window.setInterval = (call, milliseconds) => realInterval(() => { call(); ticks++; }, milliseconds / 100);
"""
"""A script that makes the intervals of the page shorter and counts them."""

MARKED = "document.activeElement.textContent.trim()"


@pytest.fixture
async def fleet() -> Fleet:
    fleet = Fleet(management_cluster())
    await fleet.examples()
    return fleet


@pytest.fixture
async def page(fleet: Fleet, chromium: list[str], tmp_path: Path) -> AsyncIterator[Page]:
    """The page of the fleet; a test fails if the browser reports an error, a dialog or a violation of the policy."""
    async with served_page(fleet.api) as access, open_page(chromium, tmp_path) as page:
        await page.resize(1120, 700)
        await page.goto(access.address)
        await page.until("document.querySelector('#clusters tbody tr')")
        yield page
        assert not page.complaints


async def open_cluster(page: Page, name: str) -> None:
    await page.value(f"location.hash = '#/cluster/{name}'")
    await page.until(f"document.querySelector('h1').textContent.includes('{name}') && document.querySelector('svg')")


async def rows(page: Page, table: str) -> list[str]:
    """Return the text of each row of a table."""
    found = await page.value(f"[...document.querySelectorAll('{table} tbody tr')].map(one => one.innerText)")
    return [" ".join(one.split()) for one in found]


def event_lists(fleet: Fleet) -> list[str]:
    """Return the field selectors of the requests for events."""
    return [given["fields"] for verb, given in fleet.api.calls if verb == "list" and given["resource"].kind == "Event"]


async def fits(page: Page) -> bool:
    """Return whether the page is not wider than the window."""
    return bool(await page.value("document.documentElement.scrollWidth <= window.innerWidth"))


async def keep(page: Page, name: str) -> None:
    """Check that a screenshot can be made, and keep it for the documentation if this is asked for."""
    image = await page.screenshot()
    assert image.startswith(b"\x89PNG")
    if os.environ.get(KEEP):
        (SCREENSHOTS / f"{name}.png").write_bytes(image)


async def test_page_shows_fleet_and_clusters_and_changes_live(page: Page, fleet: Fleet) -> None:
    drifted, upgrading, *others = await rows(page, "#clusters")
    assert upgrading.startswith("team-a/upgrading … in progress 1.35-v1 → 1.36-v1")
    assert drifted.startswith("team-b/drifted ✗ ready, troubled v1 v1.35.4 DriftFound since ")
    assert [one.split()[0] for one in others] == ["team-a/healthy", "team-b/refused"]
    assert "token" not in str(await page.value("location.href"))
    assert await page.value("document.cookie") == "", "scripts cannot read the cookie"

    await open_cluster(page, "team-a/healthy")
    assert "all 27 objects are healthy" in await page.text("main")
    await keep(page, "healthy")
    await open_cluster(page, "team-a/upgrading")
    assert "2 of 3, apply cni" in await page.text("main")
    assert "waits for the stages of BeforeClusterUpgrade before v1.36.1" in await page.value(
        "document.querySelector('.objects').textContent"
    )
    await keep(page, "upgrading")
    await open_cluster(page, "team-b/drifted")
    assert "spec.replicas (changed by kubectl-edit)" in await page.text("main")
    await keep(page, "drifted")

    await fleet.set_condition("team-b/drifted", condition("InSync"))
    await page.until("document.querySelector('h1 .sign').classList.contains('done')")
    assert await page.value("document.getElementById('announcements').textContent") == "Cluster team-b/drifted: ready"


async def test_refused_upgrade_shows_facts_plan_and_matrix_with_sources(page: Page) -> None:
    await open_cluster(page, "team-b/refused")
    await page.value("document.querySelector('#target').focus()")
    await page.type(NEW)
    await page.press("Enter")
    await page.until("document.querySelector('#answer ol')")

    answer = await page.text("#answer")
    assert f"Refused now: one write may not change the Cluster to {NEW}." in answer
    assert "cilium 1.17.0 works with Kubernetes >=1.33 <1.36" in answer
    assert "The plan: 4 steps" in answer
    assert "update addon cni from 1.17.0 to 1.18.0" in answer
    assert await page.value("[...document.querySelectorAll('.path .end')].map(one => one.innerText)") == [
        "v1, Kubernetes v1.35.4",
        NEW,
    ]
    await page.value("navigator.clipboard.writeText = async (text) => { window.copied = text; }; 0")
    await page.value("document.querySelectorAll('.path details').forEach(one => { one.open = true; })")
    await page.value("document.querySelector('.path button').click()")
    await page.until("document.querySelector('.path button').innerText === 'Copied'")
    assert (await page.value("copied")).startswith("kubectl ")

    await page.value("document.querySelector('#show-matrix').click()")
    await page.until("document.querySelector('#checked')")
    await page.value("document.querySelector('#matrix-releases tbody tr:last-child td:nth-child(3) button').click()")
    await page.until("document.querySelector('#checked caption').textContent.startsWith('openstack-scs-1-36-v1')")
    assert await page.value("document.querySelector('#checked a').href.startsWith('https://')")
    await page.scheme("dark")
    await page.value("document.querySelector('#upgrade').scrollIntoView()")
    await keep(page, "refused")


async def test_page_is_used_by_keyboard_and_has_names_for_screen_readers(page: Page) -> None:
    await page.press("Tab")
    assert await page.value(MARKED) == "Skip to the content"
    await page.press("Enter")
    await page.until("document.activeElement.tagName === 'H1'")
    for _ in range(60):
        await page.press("Tab")
        if await page.value("document.activeElement.matches('#clusters tbody a')"):
            break
    name = await page.value(MARKED)
    await page.press("Enter")
    await page.until(f"document.querySelector('h1').textContent.includes('{name}')")
    await page.until("document.activeElement.tagName === 'H1'")

    assert await page.value(
        "[...document.querySelectorAll('.sign')].every(one => one.getAttribute('aria-label') || one.closest('svg'))"
    )
    assert await page.value("[...document.querySelectorAll('input')].every(one => one.labels.length === 1)")
    assert await page.value("[...document.querySelectorAll('table')].every(one => one.caption.textContent)")
    assert await page.value("document.documentElement.lang") == "en"


async def test_cluster_has_its_deliveries_and_newest_events(page: Page, fleet: Fleet) -> None:
    await open_cluster(page, "team-a/upgrading")
    await page.until("document.querySelector('#events-list')")

    running, installed = await rows(page, "#deliveries-list")
    assert running.startswith("5 min upgrade 1.35-v1 → 1.36-v1, Kubernetes v1.35.4 → v1.36.1 … running, 1/3 stages")
    assert installed.startswith("3 h install v1, Kubernetes v1.35.4 ✓ delivered after 48s, 3/3 stages 27 created,")
    summary = "document.querySelector('#deliveries-list tbody tr:last-child summary')"
    await page.value(f"{summary}.focus()")
    await page.press("Enter")
    assert "+ DaemonSet.apps kube-system/cilium + Deployment.apps" in (await rows(page, "#deliveries-list"))[1]

    events = await rows(page, "#events-list")
    assert [one.split(" min ")[1].split()[:3] for one in events] == [
        ["⚠", "Warning", "ObjectsInProgress"],
        ["Normal", "StageStarted", "ClusterAddon/cluster-addon-upgrading"],
        ["Normal", "TopologyVersion", "Cluster/upgrading"],
        ["Normal", "ReleaseReady", "ClusterStackRelease/openstack-scs-1-36-v1"],
    ]
    assert await page.value("document.querySelectorAll('#events-list tr.warning').length") == 1
    await page.value("document.querySelector('#deliveries').scrollIntoView()")
    await keep(page, "history")

    for _ in range(SHOWN_EVENTS):
        await fleet.event("team-a", "Cluster/healthy", reason="Repeated")
    await open_cluster(page, "team-a/healthy")
    await page.until(f"document.querySelectorAll('#events-list tbody tr').length === {SHOWN_EVENTS}")
    await fleet.event("team-a", "Cluster/healthy", reason="Newest", lastTimestamp=ago(minutes=-1))
    await page.until("document.querySelector('#events-list').textContent.includes('Newest')")
    assert "1 older events: kubectl events --namespace team-a" in await page.text("main")


async def test_events_are_read_for_the_open_cluster_only_and_while_it_is_open(
    fleet: Fleet, chromium: list[str], tmp_path: Path
) -> None:
    for number in range(200):
        await fleet.cluster(f"team-c/cluster-{number}")
    async with served_page(fleet.api) as access, open_page(chromium, tmp_path) as page:
        await page.call("Page.addScriptToEvaluateOnNewDocument", source=QUICK_TICKS)
        await page.goto(access.address)
        await page.until("document.querySelector('.counts').innerText.startsWith('204 Clusters')")
        await page.until("ticks > 2")
        assert event_lists(fleet) == []

        await open_cluster(page, "team-c/cluster-7")
        await page.until("document.querySelector('#events + p.hint')")
        await page.until(f"ticks > {await page.value('ticks')} + 2")
        found = event_lists(fleet)
        assert len(found) > 3, "they are read again"
        assert {one.rpartition("=")[2] for one in found} == {"cluster-7", "cluster-addon-cluster-7", OLD}

        await page.value("location.hash = '#/'")
        await page.until("document.querySelector('h1').textContent === 'Fleet'")
        before = len(event_lists(fleet))
        await page.until(f"ticks > {await page.value('ticks')} + 2")
        assert len(event_lists(fleet)) <= before + 3, "only answers that were under way"
        assert not page.complaints


async def test_events_that_cannot_be_read_do_not_hide_the_cluster(page: Page, fleet: Fleet) -> None:
    forbidden = Forbidden("list events in team-a: 403 Forbidden: not you", status=403, reason="Forbidden")
    fleet.api.fail("list", forbidden, forbidden, forbidden)
    await open_cluster(page, "team-a/healthy")
    await page.until("document.body.innerText.includes('The events cannot be read: list events in team-a: 403')")
    assert "all 27 objects are healthy" in await page.text("main")
    page.complaints = [one for one in page.complaints if "502" not in one]


@pytest.mark.regression("U-29")
async def test_u_29_every_view_fits_the_window_and_axe_finds_nothing(
    page: Page, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_drift, "compare", compared)
    await fleet.set_condition("team-a/upgrading", drifted())
    for width, scheme in ((1280, "light"), (390, "dark")):
        await page.resize(width, 844)
        await page.scheme(scheme)
        await page.value("location.hash = '#/?by=namespace'")
        await page.until("document.querySelector('#groups')")
        assert await fits(page)
        assert await violations(page) == []
        await open_cluster(page, "team-a/upgrading")
        await page.until("document.querySelector('#events-list')")
        await page.value("document.querySelector('#compare').click()")
        await page.value("document.querySelector('#show-matrix').click()")
        await page.until("document.querySelector('.owner') && document.querySelector('#checked')")
        await page.value("document.querySelector('#target').focus()")
        await page.type(NEW)
        await page.press("Enter")
        await page.until("document.querySelector('#answer')")
        assert await fits(page)
        assert await violations(page) == []
        assert (
            await page.value("Math.max(...[...document.querySelectorAll('tbody tr')].map(one => one.clientHeight))")
            < 320
        )


async def test_delivered_objects_are_shown_by_addon_with_health_and_differences(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_drift, "compare", compared)
    await open_cluster(page, "team-b/drifted")
    await page.value("document.querySelector('#compare').click()")
    await page.until("document.querySelector('.owner')")

    owners = await page.value("[...document.querySelectorAll('.owner')].map(one => [one.open, one.innerText])")
    operator = (
        "✗ Deployment.apps kube-system/cilium-operator 1 of 2 replicas are available (LessAvailable), was changed"
    )
    field = '.spec.replicas (set by "kubectl-edit")'
    assert [(is_open, " ".join(text.split())) for is_open, text in owners] == [
        (False, "✓ ccm 1 object, none troubled"),
        (True, f"✗ cni 2 objects, 1 troubled {operator} {field} ✓ DaemonSet.apps kube-system/cilium healthy"),
    ]
    assert "csctl drift team-b/drifted" in await page.text(".command")


async def compared(*_: object, health: bool) -> Compared:
    """Answer as the comparison with a workload cluster."""
    assert health
    operator = ObjectId("apps", "Deployment", "kube-system", "cilium-operator")
    less = Health(HealthState.IN_PROGRESS, "LessAvailable", "1 of 2 replicas are available")
    return Compared(
        {
            operator: "cni",
            ObjectId("apps", "DaemonSet", "kube-system", "cilium"): "cni",
            ObjectId("", "ConfigMap", "kube-system", "ccm"): "ccm",
        },
        [Found(DriftedObject(operator, "cni", CHANGED, (ChangedField(".spec.replicas", ("kubectl-edit",)),)))],
        [],
        [],
        [UnhealthyObject(operator, "cni", less)],
    )


@pytest.mark.regression("U-34")
async def test_u_34_fleet_of_300_is_filtered_sorted_grouped_and_paged_by_its_address(
    fleet: Fleet, chromium: list[str], tmp_path: Path
) -> None:
    for number in range(300):
        labels = {"stage": "prod" if number % 3 else "test"}
        ill: dict[str, Any] = {"conditions": conditions(InSync=drifted())} if number % 50 == 7 else {}
        await fleet.cluster(f"team-{number % 10}/cluster-{number:03}", labels=labels, **ill)
    async with served_page(fleet.api) as access, open_page(chromium, tmp_path) as page:
        await page.resize(1280, 900)
        await page.goto(access.address)
        await page.until("document.querySelectorAll('#clusters tbody tr').length === 50")
        counts = " ".join((await page.text(".counts")).split())
        assert counts == "304 Clusters ✓ 303 ready … 1 in progress ✗ 0 failed 8 troubled"
        first = [one.split()[0] for one in await rows(page, "#clusters")]
        assert first[:3] == ["team-7/cluster-007", "team-7/cluster-057", "team-7/cluster-107"]
        assert first[6:9] == ["team-b/drifted", "team-a/upgrading", "team-0/cluster-000"]
        assert await page.text(".pages span") == "1 to 50 of 304"
        assert await page.value("document.documentElement.scrollHeight") < 3500
        await keep(page, "fleet")

        await page.value("document.querySelector('#filter').focus()")
        await page.type("stage=test namespace=team-7")
        await page.until("document.querySelectorAll('#clusters tbody tr').length === 10")
        assert "q=stage%3Dtest+namespace%3Dteam-7" in await page.value("location.hash")
        await page.value(
            "[...document.querySelectorAll('#clusters thead a')].find(one => one.innerText === 'Cluster').click()"
        )
        await page.until(
            "document.querySelector('#clusters th[aria-sort=ascending] a').innerText.startsWith('Cluster')"
        )
        assert (await rows(page, "#clusters"))[0].startswith("team-7/cluster-027")

        shared = await page.value("location.hash")
        await page.value("location.hash = '#/cluster/team-7/cluster-027'")
        await page.until("document.querySelector('svg')")
        await page.value("history.back()")
        await page.until("document.querySelectorAll('#clusters tbody tr').length === 10")
        assert await page.value("location.hash") == shared

        await page.value("location.hash = '#/?by=stage'")
        await page.until("document.querySelector('#groups')")
        assert await rows(page, "#groups") == ["✗ prod 200 200 4", "✗ (none) 4 3 2", "✗ test 100 100 2"]
        await page.value("document.querySelector('#groups a').click()")
        await page.until("document.querySelector('[role=status]').innerText === '200 of 304 Clusters'")
        await page.value("[...document.querySelectorAll('.pages a')].at(-1).click()")
        await page.until("document.querySelector('.pages span').innerText === '51 to 100 of 200'")


async def test_clusters_of_several_contexts_are_in_one_table_and_one_outage_does_not_hide_the_others(
    fleet: Fleet, chromium: list[str], tmp_path: Path
) -> None:
    other, broken = Fleet(management_cluster()), management_cluster()
    await other.cluster("team-a/healthy")
    forbidden = Forbidden("list Cluster: 403 Forbidden: not you", status=403, reason="Forbidden")
    broken.fail("list", *[forbidden] * 999)
    async with served_page(fleet.api, eu=other.api, us=broken) as access, open_page(chromium, tmp_path) as page:
        await page.goto(access.address)
        await page.until("document.querySelectorAll('#clusters tbody tr').length === 5")
        assert "us: the management cluster cannot be read since" in await page.text(".outage")
        assert await page.value("document.querySelector('main').className") == ""
        await page.value("location.hash = '#/?q=context%3Deu'")
        await page.until("document.querySelectorAll('#clusters tbody tr').length === 1")
        await page.value("document.querySelector('#clusters a[href*=cluster]').click()")
        await page.until("document.querySelector('#events + p.hint')")
        assert await page.value("location.hash") == "#/cluster/team-a/healthy?context=eu"
        assert await page.text(".context") == "eu"


@pytest.mark.regression("U-41")
async def test_u_41_release_that_the_user_may_not_read_is_not_missing(
    fleet: Fleet, chromium: list[str], tmp_path: Path
) -> None:
    listed = fleet.api.list

    async def of_clusters(resource: Resource, namespace: str = "", **query: Any) -> ObjectList:
        if resource.kind in {Kind.CLUSTER_STACK, Kind.CLUSTER_STACK_RELEASE}:
            raise Forbidden(f"list {resource.kind}: 403 Forbidden: not you", status=403, reason="Forbidden")
        return await listed(resource, namespace, **query)

    fleet.api.list = of_clusters  # type: ignore[method-assign]
    async with served_page(fleet.api) as access, open_page(chromium, tmp_path) as page:
        await page.goto(access.address)
        await page.until("document.querySelector('#releases tbody tr')")
        assert [one.split()[2:5] for one in await rows(page, "#releases")] == [["…", "not", "visible"]]
        assert "list ClusterStackRelease: 403 Forbidden: not you: only releases" in await page.text()


async def test_last_known_state_stays_when_csctl_has_ended(fleet: Fleet, chromium: list[str], tmp_path: Path) -> None:
    async with open_page(chromium, tmp_path) as page:
        async with served_page(fleet.api) as access:
            await page.goto(access.address)
            await page.until("document.querySelector('#clusters tbody tr')")
            await open_cluster(page, "team-a/healthy")
        await page.until("document.querySelector('header').innerText.includes('csctl ui does not answer')")
        assert await page.value("document.querySelector('main').className") == "old"
        assert "all 27 objects are healthy" in await page.text("main")


async def test_hostile_names_and_messages_stay_text(page: Page, fleet: Fleet) -> None:
    message = drifted(HOSTILE)
    stages = [{"name": HOSTILE, "action": "apply", "phase": HOSTILE, "hook": HOSTILE}]
    changes = [{"name": HOSTILE, "created": 1, "createdObjects": [HOSTILE]}]
    texts = (
        "began",
        "occasion",
        "fromRelease",
        "release",
        "kubernetesVersion",
        "stages",
        "result",
        "reason",
        "message",
    )
    history = [delivery(**dict.fromkeys(texts, HOSTILE), hooks=[HOSTILE], addons=changes)]
    await fleet.cluster("team-c/hostile", conditions=conditions(InSync=message), stages=stages, history=history)
    await fleet.event("team-c", "Cluster/hostile", type=HOSTILE, reason=HOSTILE, message=HOSTILE, lastTimestamp=HOSTILE)
    await page.until("document.querySelector('#clusters').textContent.includes('team-c/hostile')")
    await open_cluster(page, "team-c/hostile")
    await page.until("document.querySelector('#events-list')")

    shown = HOSTILE.replace("\u202e", "\ufffd")
    for place in (
        "#conditions",
        ".objects",
        "#deliveries-list .changes",
        "#deliveries-list th[scope=row]",
        "#events-list",
    ):
        assert shown in await page.value(f"document.querySelector('{place}').textContent"), place
    assert await page.value("document.querySelectorAll('main img, main script').length") == 0
    assert await page.value("[...document.links].every(one => /^https?:/.test(one.href))")
