"""Training the tiny voice: corpus, teacher synthesis, codec, language model, export.

Two commands: ``python -m reference_impl.training.corpus`` makes the text, ``python -m reference_impl.training.all`` the
rest within a time budget.
"""
