"""The operator's process: settings, wiring, probes and orderly stop; the only package that connects the others."""
