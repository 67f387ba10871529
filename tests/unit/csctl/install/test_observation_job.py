"""The Job that observes what another version of the operator would write."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from clusterstacks.csctl.install.observation_job import observation_job
from clusterstacks.csctl.install.operator_chart import installation_objects


def test_the_job_is_the_rendered_operator_that_is_called_by_no_service() -> None:
    values = {"image": {"repository": "example.org/operator"}, "topologySpreadConstraints": []}
    objects = asyncio.run(installation_objects(values, "home"))
    (deployment,) = (one for one in objects if one["kind"] == "Deployment")
    selector = deployment["spec"]["selector"]["matchLabels"]
    running = deployment["spec"]["template"]["spec"]

    job = observation_job(objects, timedelta(minutes=5))

    template = job["spec"]["template"]
    assert job["metadata"]["namespace"] == "home"
    assert (job["spec"]["backoffLimit"], job["spec"]["activeDeadlineSeconds"]) == (0, 300)
    assert not selector.items() <= template["metadata"]["labels"].items()
    assert template["spec"]["serviceAccountName"] == running["serviceAccountName"]
    assert template["spec"]["restartPolicy"] == "Never"
    (manager,) = template["spec"]["containers"]
    (before,) = running["containers"]
    assert manager["args"] == [*before["args"], "--observe", "--once"]
    assert (manager["image"], manager["env"]) == (before["image"], before["env"])
    assert not {"livenessProbe", "readinessProbe", "lifecycle"} & manager.keys()
    assert "readinessProbe" in before, "the rendered Deployment is not changed"
