"""Options, tables and steps that several verbs share."""
