"""The training job's document: its typed model, its limits and its identity.

`identity`, `hyperparameters` and `models` need nothing but the standard library, because the
training job's Lambda handler imports them; `document` adds pydantic for the edges.
"""
