"""Does the reference model compute what the official package ``qwen-tts`` computes?

    python -m reference_impl.official_parity [--out reports/parity.md]

Released weights are not needed: the official classes are built at a small random
configuration and saved in the released layout; our loader reads that folder; both get the
same inputs. Install with the extra ``parity`` (see ``make parity``), in an environment of its
own: its pins are not those of the rest.
"""
