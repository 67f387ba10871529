"""Release sources: directories, OCI registries, GitHub and HTTP servers, and the cache of open sources."""
