"""Tests for programs of others that work with the operator. They need pytest, which their users install."""
