"""Jobs of the account as an operator handles them: find, list, stop, and read what they leave."""
