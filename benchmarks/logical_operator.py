"""The operator for many logical clusters that share one API server: ``python -m benchmarks.logical_operator``.

A cluster has the delivery records of one Cluster only, in its ``kube-system``. Here each logical cluster has a
namespace with its own records, named like the Cluster; the requests are the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.net.tls import without_system_cas
from clusterstacks.operator.main import main

if TYPE_CHECKING:
    from clusterstacks.net.kube.client import Client


def separate_records() -> None:
    """Make the controllers use records of logical clusters."""
    from clusterstacks.deliver.apply.delivery import RECORD_NAMESPACE  # noqa: PLC0415
    from clusterstacks.deliver.apply.record_store import RecordStore, applyset_id  # noqa: PLC0415
    from clusterstacks.operator.controllers import addon_sweep  # noqa: PLC0415
    from clusterstacks.operator.controllers.clusterresourcesync import binding_reconciler  # noqa: PLC0415

    class LogicalStore(RecordStore):
        def __init__(self, client: Client, _namespace: str, cluster: str, *, kind: str) -> None:
            super().__init__(client, cluster.partition("/")[2], cluster, kind=kind)

        def set_id(self, addon: str) -> str:
            """Return the id with the usual namespace, by which the sweep lists the members."""
            return applyset_id(self.name(addon), RECORD_NAMESPACE)

    for module in (binding_reconciler, addon_sweep):
        module.RecordStore = LogicalStore  # type: ignore[attr-defined]  # the point of this program


if __name__ == "__main__":
    with without_system_cas():  # as main imports them
        separate_records()
    main()
