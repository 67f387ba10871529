"""From the source directory of a cluster stack to a release: layouts, tags, versions, charts, plugins.

The law: the same source gives the same bytes on any machine, nothing but the output directory is written, and what
stands there is a whole release or none. Which versions a release gets is decided in
:mod:`clusterstacks.building.version_bump`.
"""
