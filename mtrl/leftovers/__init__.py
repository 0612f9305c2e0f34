"""`mtrl leftovers`: everything of a deployment that still exists, what it costs, and its removal.

`finding` looks service by service, `ownership` says what a living stack will remove by itself,
`removing` deletes one thing, `command` is the verb.
"""
