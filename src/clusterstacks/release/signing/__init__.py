"""Signatures of releases, and attestations of images: DSSE envelopes, and signatures of ``cosign sign --key``.

A release is signed as a whole: a DSSE envelope over an in-toto Statement that lists every file with its sha256.
Signatures that ``cosign sign --key`` made of an OCI artifact are accepted as well. The package does no I/O and fails
closed: a release counts as signed only after its signature was verified with a key that the caller trusts.
"""
