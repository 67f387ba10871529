"""The files of a stack and of a release as values; ``definitions`` reads documents into them and describes them."""
