"""Release artifacts: where they come from, how they are kept, what is in them, how they are built.

The law: bytes from outside are bounded and verified before anything reads them, a release on disk is whole or does not
exist, and whoever asks for a release gets exactly the content its digest names. Nothing here knows Kubernetes objects,
templates or clusters.
"""
