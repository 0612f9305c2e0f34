"""`mtrl rehearse`: the whole job on this machine, from its parts to its result."""
