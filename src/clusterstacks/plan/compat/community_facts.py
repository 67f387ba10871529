"""Converts community data sets to facts files: the compatibility files of Plural, and products of endoflife.date.

The authority of these facts is ``community``: they are collected by third parties, mostly without a source for each
row, so that they may warn but never deny. Rows that cannot be read are left out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from clusterstacks.model import yaml
from clusterstacks.model.documents import at, mappings, text
from clusterstacks.model.errors import SpecError
from clusterstacks.model.ranges import Range, merged
from clusterstacks.model.semver import SemVer
from clusterstacks.model.versions import InvalidVersion
from clusterstacks.plan.compat.statements import COMMUNITY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date

    from clusterstacks.model.objects import Manifest

PLURAL: Final = "https://github.com/pluralsh/console/tree/master/static/compatibilities"
ENDOFLIFE: Final = "https://endoflife.date"

_MINOR: Final = re.compile(r"1\.\d{1,3}")
_PERIOD: Final = re.compile(r"(1\.\d{1,3}(?:\.\d{1,3})?) ?- ?1\.(\d{1,3})")
_CYCLE: Final = re.compile(r"(\d{1,8})(\.\d{1,8}(?:\.\d{1,8})?)?")
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_ABOUT_KUBERNETES: Final = re.compile(r"kubernetes|k8s", re.IGNORECASE)


def facts_of_plural(component: str, document: Manifest, today: date) -> Manifest | None:
    """Return the facts file of a decoded file of Plural's directory; None if it has no usable row.

    A row is about its version and the patches after it, up to the next row of the series.
    """
    rows: dict[SemVer, str] = {}
    for row in mappings(document, "versions"):
        kube = row.get("kube")
        listed = kube if isinstance(kube, list) else ()
        minors = [one for one in listed if isinstance(one, str) and _MINOR.fullmatch(one)]  # 1.30 without quotes is 1.3
        try:
            version = SemVer.parse(text(row, "version"))
        except InvalidVersion:
            continue
        if minors and not version.pre and not version.build:
            rows[version] = merged(Range.parse(f">={minor} <1.{int(minor[2:]) + 1}") for minor in minors)
    versions = []
    for version in sorted(rows):
        major, minor, _ = version.release
        later = [other for other in rows if other.release[:2] == (major, minor) and other > version]
        end = min(later, default=f"{major}.{minor + 1}")
        versions.append({"version": f">={version} <{end}", "kubernetes": rows[version]})
    return _facts(component, versions, "plural", PLURAL, today)


def facts_of_endoflife(component: str, content: str, today: date) -> Manifest | None:
    """Return the facts file of a product page, which begins with YAML between dashes; None if it has no usable row.

    Raises:
        SpecError: It is not such a page.
    """
    document = yaml.load(content.removeprefix("---\n").partition("\n---")[0], name=component)
    if not isinstance(at(document, "releases"), list):
        problem = f"{component} is no product of endoflife.date (expected YAML between lines of dashes, with releases)"
        raise SpecError("ProductUnreadable", f"{problem}: name a file of the directory products")
    return _facts(component, list(_cycles(document)), "endoflife", f"{ENDOFLIFE}/{component}", today)


def _cycles(document: Manifest) -> Iterator[Manifest]:
    for release in mappings(document, "releases"):
        cycle = _CYCLE.fullmatch(text(release, "releaseCycle"))
        if cycle is None:
            continue
        row: Manifest = {"version": cycle[0] if cycle[2] else f">={cycle[1]}.0 <{int(cycle[1]) + 1}.0"}
        for key, value in release.items():
            if _ABOUT_KUBERNETES.search(key) and (period := _PERIOD.fullmatch(str(value))):
                row["kubernetes"] = f">={period[1]} <1.{int(period[2]) + 1}"
        begin, end = text(release, "releaseDate"), text(release, "eol")
        if _DAY.fullmatch(end) and begin < end:
            row |= {"released": begin, "eol": end} if _DAY.fullmatch(begin) else {"eol": end}
        if len(row) > 1:
            yield row


def _facts(component: str, versions: list[Manifest], source: str, url: str, today: date) -> Manifest | None:
    if not versions:
        return None
    return {
        "schemaVersion": 1,
        "component": component,
        "title": component,
        "semantics": f"Collected by {url}, not stated by the project.",
        "outside": "untested",
        "sources": [{"id": source, "url": url, "retrieved": str(today), "authority": COMMUNITY}],
        "versions": [{**row, "kind": "documented", "source": source} for row in versions],
    }
