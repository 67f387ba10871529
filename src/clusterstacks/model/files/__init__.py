"""The files of a stack and of a release as values."""
