"""The order of the passes from written to spoken English."""

from __future__ import annotations

from reference_impl.prompt.text.abbreviations import spell_abbreviations, spell_initialisms
from reference_impl.prompt.text.dates import spell_dates, spell_times
from reference_impl.prompt.text.fold import fold_unicode
from reference_impl.prompt.text.measures import spell_digit_strings, spell_measures, spell_money
from reference_impl.prompt.text.numbers import spell_numbers, spell_ranges
from reference_impl.prompt.text.symbols import spell_addresses, spell_symbols

# Each pass turns what it knows into words and leaves the rest; the specific come first.
_PASSES = (
    fold_unicode,
    spell_addresses,
    spell_abbreviations,
    spell_dates,
    spell_times,
    spell_digit_strings,
    spell_money,
    spell_ranges,
    spell_measures,
    spell_numbers,
    spell_initialisms,
    spell_symbols,
)


def spoken_form(text: str) -> str:
    """Write ``text`` as an English reader would say it.

    The result holds only ASCII letters, single spaces and ``' , . ? !`` (case is kept); it
    may be empty if nothing of the text can be read in English.
    """
    for spell in _PASSES:
        text = spell(text)
    return text
