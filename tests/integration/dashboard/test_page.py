"""The page of csctl ui in a real browser, with the documents that the verb computes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from clusterstacks.csctl.verbs.ui import SHOWN_EVENTS
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
from tests.support.running.chromium import open_page
from tests.support.running.page import served_page

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

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


async def keep(page: Page, name: str) -> None:
    """Check that a screenshot can be made, and keep it for the documentation if this is asked for."""
    image = await page.screenshot()
    assert image.startswith(b"\x89PNG")
    if os.environ.get(KEEP):
        (SCREENSHOTS / f"{name}.png").write_bytes(image)


async def test_page_shows_fleet_and_clusters_and_changes_live(page: Page, fleet: Fleet) -> None:
    clusters = await page.text("#clusters")
    assert "team-a/upgrading … in progress 1.35-v1 → 1.36-v1" in " ".join(clusters.split())
    assert "team-b/drifted ✗ ready, troubled v1 v1.35.4 DriftFound since " in " ".join(clusters.split())
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
        if await page.value("document.activeElement.matches('#clusters a')"):
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
        await page.until("document.querySelectorAll('#clusters tbody tr').length === 204")
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


async def test_page_fits_a_narrow_window(page: Page) -> None:
    await page.resize(360, 640)
    wide = "document.documentElement.scrollWidth - window.innerWidth"
    assert await page.value(wide) <= 0
    await open_cluster(page, "team-a/upgrading")
    await page.until("document.querySelector('#events-list')")
    assert await page.value(wide) <= 0


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
