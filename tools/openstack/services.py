"""Keystone and Glance as gunicorn loads them, and their accounts; runs in their own environment, without this project.

It is also gunicorn's configuration: the settings are its names.
"""

from __future__ import annotations

import sys

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


def begin_immediately(_: object, __: object, statement: str, parameters: object, *___: object) -> tuple[str, object]:
    """Wait for other writers when a transaction of SQLite begins; later, SQLite fails at once (database is locked)."""
    return "BEGIN IMMEDIATE" if statement == "BEGIN" else statement, parameters


event.listen(Engine, "before_cursor_execute", begin_immediately, retval=True)


def keystone() -> object:
    """Return the application of Keystone, which would parse the arguments of gunicorn."""
    sys.argv = ["keystone"]
    from keystone.wsgi.api import application

    return application


def glance() -> object:
    """Return the application of Glance."""
    sys.argv = ["glance-api"]
    from glance.wsgi.api import application

    return application


def create_accounts(image_url: str) -> None:
    """Create the endpoint of Glance, and the user of the cloud openstack with its project."""
    import openstack

    identity = openstack.connect(cloud="admin").identity
    service = identity.create_service(name="glance", type="image")
    identity.create_endpoint(service_id=service.id, interface="public", region_id="RegionOne", url=image_url)
    login = openstack.config.OpenStackConfig().get_one("openstack").config["auth"]
    project = identity.create_project(name=login["project_name"], domain_id="default")
    user = identity.create_user(name=login["username"], password=login["password"], domain_id="default")
    identity.assign_project_role_to_user(project, user, identity.find_role("member"))


if __name__ == "__main__":
    create_accounts(sys.argv[1])
