"""The text front end: written English -> words the talker can spell, cut into sentences.

The bundled voice knows 32 characters and no digits, and was trained on sentences of at most
180 characters, so a request's text goes through :func:`spoken.spoken_form` and then
:func:`split.split_sentences`.
"""
