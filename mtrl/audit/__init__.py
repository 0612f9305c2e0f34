"""`mtrl audit`: judges a task's reward before a policy is trained on it, with no model and no AWS.

The task supplies what only it can know (`hooks`). `search` looks for the extreme rewards of every
outcome and `ordering` judges them; `exploits` plays adversaries through the agent's own loop;
`optimisation` has a small policy trained on the reward and says what it learned; `command` is the
verb.
"""
