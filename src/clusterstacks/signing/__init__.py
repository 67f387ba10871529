"""Signatures of releases: who made them, how they are verified, and what a person is told when they are not.

A release is signed as a whole: a DSSE envelope over an in-toto Statement that lists every file with its sha256. What
``cosign sign --key`` made of an OCI artifact is accepted as well. Everything but :mod:`storing` is values in, values
out, and fails closed: nothing counts as signed that was not verified with a key the caller trusts.
"""
