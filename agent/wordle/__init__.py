"""Wordle: six attempts to find a five-letter word, with marks as feedback."""
