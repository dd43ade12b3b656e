"""The text front end: written English -> words the talker can spell, cut into sentences.

The bundled voice knows 32 characters and no digits, and was trained on sentences of at most
180 characters, so a request's text goes through :func:`spoken_form` and then
:func:`split_sentences`.
"""

from reference_impl.prompt.text.split import split_sentences
from reference_impl.prompt.text.spoken import spoken_form

__all__ = ["split_sentences", "spoken_form"]
