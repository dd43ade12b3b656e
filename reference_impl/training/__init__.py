"""Training the tiny voice: corpus, teacher synthesis, codec, language model, evaluation, export.

One command each: ``python -m reference_impl.training.corpus | synthesise | codec | lm |
evaluate | export``; ``python -m reference_impl.training.all`` runs what needs a GPU within a time
budget. Needs the extra ``train``.
"""
