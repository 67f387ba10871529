"""The read-only web page of ``csctl ui``: its documents, its server, and the page itself.

The documents are what ``csctl status`` computes, as JSON; the page draws them and decides nothing.
"""
