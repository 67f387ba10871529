"""Charts with the values, versions and types about which Helm decides outside of its templates: as the helm program."""

from __future__ import annotations

import asyncio
import subprocess
from typing import TYPE_CHECKING

import pytest

from clusterstacks.deliver.render.errors import RenderFailed
from clusterstacks.dev.binaries import resolve
from clusterstacks.model import yaml
from tests.support.builders.charts import CONFIG_MAP, packed
from tests.support.observing.render_workers import chart_request

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.deliver.render.renderer import Renderer

VALUES = CONFIG_MAP % "{{ .Chart.Name }}-values" + "data: {values: {{ .Values | toJson | quote }}}\n"
SUB = "apiVersion: v2\nname: sub\nversion: 1.0.0\n"
LIMITS = "resources: {limits: {cpu: 200m, memory: 200Mi}}\nprobe: {httpGet: {path: /, port: 80}}\n"
DEEP = {
    "charts/sub/charts/deep/Chart.yaml": SUB.replace("sub", "deep"),
    "charts/sub/charts/deep/values.yaml": LIMITS,
    "charts/sub/charts/deep/templates/a.yaml": VALUES,
}
TWO = f"{SUB.replace('sub', 'two')}dependencies: [{{name: deep, alias: low, version: 1.0.0}}]\n"
IMPORTS = "dependencies: [{name: sub, version: 1.0.0, import-values: [data, {child: resources, parent: taken}]}]\n"


async def helm_program(
    tmp_path: Path, files: dict[str, str], chart: str, values: str
) -> subprocess.CompletedProcess[str]:
    for path, content in {"Chart.yaml": f"{SUB.replace('sub', 'demo')}{chart}", **files}.items():
        (tmp_path / "demo" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "demo" / path).write_text(content)
    (tmp_path / "given.yaml").write_text(values)
    command = [str(resolve(["helm"])["helm"].path), "template", "cluster-addon", str(tmp_path / "demo")]
    options = ["-f", str(tmp_path / "given.yaml"), "-n", "kube-system", "--kube-version", "v1.35.4"]
    return await asyncio.to_thread(subprocess.run, command + options, capture_output=True, text=True, check=False)


@pytest.mark.regression("CASE-02")
@pytest.mark.parametrize(
    ("files", "chart", "values"),
    [
        pytest.param({"values.yaml": "sub: {resources: {limits: {cpu: null}}}\n"}, "", "", id="removed"),
        pytest.param({"values.yaml": "sub: {resources: {limits: {cpu: null}}}\n"}, "", "sub: {a: 1}", id="and set"),
        pytest.param({"values.yaml": "sub: {resources: {limits: {cpu: null}}}\n"}, "", "sub: null", id="and unset"),
        pytest.param(
            {"values.yaml": "sub: {resources: {limits: {cpu: null}}}\n"},
            "",
            "sub: {resources: {limits: {cpu: 1}}}",
            id="set again",
        ),
        pytest.param({"values.yaml": "sub: {probe: null}\n"}, "", "", id="whole table"),
        pytest.param({"values.yaml": "sub: {probe: {httpGet: null, tcp: {port: 1}}}\n"}, "", "", id="replaced"),
        pytest.param(
            {"values.yaml": "one: {probe: null}\ntwo: {resources: {limits: null}}\n"},
            "dependencies: [{name: sub, alias: one, version: 1.0.0}, {name: sub, alias: two, version: 1.0.0}]\n",
            "",
            id="aliases",
        ),
        pytest.param({**DEEP, "values.yaml": "sub: {deep: {probe: null}}\n"}, "", "", id="from two levels above"),
        pytest.param({**DEEP, "charts/sub/values.yaml": "deep: {probe: {httpGet: {path: null}}}\n"}, "", "", id="deep"),
        pytest.param(
            {
                **DEEP,
                "charts/sub/values.yaml": "deep: {probe: {httpGet: {path: null}}}\n",
                "values.yaml": "sub: {deep: {probe: {httpGet: {path: /a}}}}\n",
            },
            "",
            "",
            id="set above",
        ),
        pytest.param(
            {
                **{path.replace("sub/", "two/"): text.replace("sub", "two") for path, text in DEEP.items()},
                "charts/two/Chart.yaml": TWO,
                "charts/two/values.yaml": "low: {probe: {httpGet: {port: null}}}\n",
            },
            "dependencies: [{name: two, alias: high, version: 1.0.0}]\n",
            "",
            id="alias below an alias",
        ),
        pytest.param(
            {"values.yaml": "global: {a: {b: null}}\n", "charts/sub/values.yaml": "global: {a: {b: 1, c: 2}}\n"},
            "",
            "",
            id="global",
        ),
        pytest.param(
            {"values.yaml": "sub: {enabled: false, probe: null}\n"},
            "dependencies: [{name: sub, version: 1.0.0, condition: sub.enabled}]\n",
            "",
            id="condition",
        ),
        pytest.param(
            {"values.yaml": "tags: {a: false, b: null}\nsub: {probe: null}\n"},
            "dependencies: [{name: sub, version: 1.0.0, tags: [a, b]}]\n",
            "",
            id="tags",
        ),
        pytest.param(
            {
                "values.yaml": "sub: {probe: null}\ntaken: {limits: {cpu: null}}\n",
                "charts/sub/values.yaml": f"{LIMITS}exports: {{data: {{a: 1, b: {{c: 2}}}}}}\n",
            },
            IMPORTS,
            "",
            id="import-values",
        ),
        pytest.param({"values.yaml": "config: {a: null, b: {c: null, d: 1}, e: [null]}\n"}, "", "", id="own"),
        pytest.param({"values.yaml": "a: null\nb: 1\nc: 0644\nd: 1.50\n"}, "", "", id="top level"),
        pytest.param({"values.yaml": "a: null\n"}, "", "a: {b: 1}", id="top level, set"),
        pytest.param({"charts/sub/values.yaml": "a: null\nb: {c: null}\n"}, "", "", id="top level of a subchart"),
        pytest.param(
            {"values.yaml": "sub: {a: 1}\n", "charts/sub/values.yaml": "a: null\n"}, "", "", id="top level, set above"
        ),
        pytest.param({"values.yaml": "config: {a: null}\n"}, "", "config: {a: 1}", id="own, set"),
        pytest.param({"values.yaml": "config: {a: null}\n"}, "", "config: null", id="own, unset"),
    ],
)
async def test_nulls_of_charts_have_the_effect_that_they_have_in_the_helm_command(
    renderer: Renderer, tmp_path: Path, files: dict[str, str], chart: str, values: str
) -> None:
    files = {"templates/a.yaml": VALUES, **files}
    if "charts/two/Chart.yaml" not in files:
        below = {"Chart.yaml": SUB, "values.yaml": LIMITS, "templates/a.yaml": VALUES}
        files = {**{f"charts/sub/{path}": text for path, text in below.items()}, **files}
    printed = await helm_program(tmp_path, files, chart, values)

    found = await renderer.chart(chart_request(packed(files, chart=chart), values=values))

    assert printed.returncode == 0, printed.stderr
    assert found == [one for one in yaml.load_all(printed.stdout) if one]


@pytest.mark.regression("CASE-02")
@pytest.mark.parametrize("chart", ["kubeVersion: '<1.30.0-0'\n", "kubeVersion: soon\n", "type: library\n"])
async def test_chart_that_the_helm_command_refuses_is_an_error(renderer: Renderer, tmp_path: Path, chart: str) -> None:
    files = {"templates/a.yaml": VALUES}
    printed = await helm_program(tmp_path, files, chart, "")

    with pytest.raises(
        RenderFailed, match=r"addon demo: chart demo (requires Kubernetes .*, not v1\.35\.4|has the type)"
    ):
        await renderer.chart(chart_request(packed(files, chart=chart)))
    assert printed.returncode == 1


@pytest.mark.regression("CASE-02")
async def test_partials_of_a_library_chart_are_used_and_its_templates_are_not(
    renderer: Renderer, tmp_path: Path
) -> None:
    files = {
        "charts/sub/Chart.yaml": f"{SUB}type: library\nkubeVersion: '<1.30.0-0'\n",
        "charts/sub/templates/_a.tpl": '{{ define "shared" }}shared{{ end }}',
        "charts/sub/templates/b.yaml": CONFIG_MAP % "b",
        "templates/a.yaml": CONFIG_MAP % '{{ include "shared" . }}',
    }
    printed = await helm_program(tmp_path, files, "kubeVersion: '>=1.30.0-0'\n", "")

    found = await renderer.chart(chart_request(packed(files, chart="kubeVersion: '>=1.30.0-0'\n")))

    assert [one["metadata"]["name"] for one in found] == ["shared"]
    assert found == [one for one in yaml.load_all(printed.stdout) if one]


@pytest.mark.regression("CASE-02")
@pytest.mark.parametrize("end", ["", "\n", "\n\n\n"])
@pytest.mark.parametrize("block", ["|", "|-", ">"])
async def test_block_scalar_at_the_end_of_a_template_has_the_line_break_of_the_helm_command(
    renderer: Renderer, tmp_path: Path, block: str, end: str
) -> None:
    files = {"templates/a.yaml": f"{CONFIG_MAP % 'a'}data:\n  a: {block}\n    x{end}"}
    printed = await helm_program(tmp_path, files, "", "")

    found = await renderer.chart(chart_request(packed(files)))

    assert found == [one for one in yaml.load_all(printed.stdout) if one]
