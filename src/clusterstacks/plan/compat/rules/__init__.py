"""Rules about the versions of a cluster, one file a theme; shared by webhooks, live check, csctl and planner."""
