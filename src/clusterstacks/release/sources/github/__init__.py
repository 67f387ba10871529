"""Releases of a GitHub repository, on github.com or on a GitHub Enterprise Server.

The token is sent only to the API, and rate limits are respected.
"""
