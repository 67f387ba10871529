"""Releases of a GitHub repository, of github.com or of a GitHub Enterprise Server (FORMATS section 10).

The law: the token goes to the API alone, and a server that asks for rest is left alone.
"""
