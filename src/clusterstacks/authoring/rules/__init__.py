"""What lint asks of a stack, one module a theme; each ends in its ``RULES``.

Law: a rule is a pure function of the stack. It never raises, whatever the files hold, and never shows what they hold
where that may be secret.
"""
