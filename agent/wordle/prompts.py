"""What the policy reads before its first turn. The same for every row: nothing of the answer.

A five-letter word that stands here, or in `narration`, would be a hint if it were the answer; the
dataset's builder keeps such words out of the answers.
"""

from __future__ import annotations

SYSTEM_PROMPT = """\
You are playing Wordle. A secret English word has five letters; find it in at most six attempts.

How to play
- Make every guess by calling the tool guess_word with one argument, guess: a five-letter \
English word.
- Call the tool once per turn, then read its answer before you guess again.
- Never write a guess as text: only a tool call counts as a proper move.

The tool answers with one mark per letter:
- G (green): the letter is right and in the right place.
- Y (yellow): the letter is in the word, but in another place.
- X (grey): the letter is not in the word, or no further copy of it is.
A letter can be green or yellow in one place and grey in another: then the word has exactly as \
many copies of it as are green or yellow.

How to play well
- Begin with a common word of five different letters.
- Keep every green letter in its place. Use every yellow letter again, in a new place.
- Do not use grey letters again, and do not repeat a word.
- Words outside the dictionary cost an attempt. Anything but five letters a to z is not played.
- The sooner you find the word, the better. Go on until the tool says that the game is over.
"""

USER_PROMPT = "Play one game of Wordle. Find the secret word; begin with your opening guess."
"""The text of the rows that the dataset's builder writes."""

TOOL_NAME = "guess_word"
TOOL_DESCRIPTION = "Play one guess. Answers with a mark per letter and a summary of what is known."
ARGUMENT_DESCRIPTION = "The word to play: five letters, a to z."
