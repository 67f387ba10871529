"""Keystone and Glance as gunicorn loads them, and their accounts; runs in their own environment, without this project.

It is also gunicorn's configuration: the settings are its names.
"""

from __future__ import annotations

import sys

import openstack
from sqlalchemy import event
from sqlalchemy.engine import Engine

worker_class = "gthread"
workers = 1
threads = 16
keepalive = 0
"""With kept connections, the request after a refused upload sometimes finds a closed one."""
timeout = 3600
"""Seconds of a request; an upload of a large image takes minutes."""
graceful_timeout = 5
control_socket_disable = True


@event.listens_for(Engine, "before_cursor_execute", retval=True)
def begin_immediately(_connection, _cursor, statement, parameters, _context, _many):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, PLR0913, PLR0917
    """Wait for other writers at the begin of a transaction of SQLite; later, SQLite fails at once (database is locked)."""
    return "BEGIN IMMEDIATE" if statement == "BEGIN" else statement, parameters


def keystone():  # type: ignore[no-untyped-def]  # noqa: ANN201
    """Return the application of Keystone, which would parse the arguments of gunicorn."""
    sys.argv = ["keystone"]
    from keystone.wsgi.api import application  # noqa: PLC0415

    return application


def glance():  # type: ignore[no-untyped-def]  # noqa: ANN201
    """Return the application of Glance."""
    sys.argv = ["glance-api"]
    from glance.wsgi.api import application  # noqa: PLC0415

    return application


def create_accounts(image_url: str) -> None:
    """Create what the administrator's bootstrap does not: the endpoint of Glance, and the user of the cloud openstack."""
    identity = openstack.connect(cloud="admin").identity
    service = identity.create_service(name="glance", type="image")
    identity.create_endpoint(service_id=service.id, interface="public", region_id="RegionOne", url=image_url)
    login = openstack.config.OpenStackConfig().get_one("openstack").config["auth"]
    project = identity.create_project(name=login["project_name"], domain_id="default")
    user = identity.create_user(name=login["username"], password=login["password"], domain_id="default")
    identity.assign_project_role_to_user(project, user, identity.find_role("member"))


if __name__ == "__main__":
    create_accounts(sys.argv[1])
