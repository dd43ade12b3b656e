"""Signals that are held back: noted once, obeyed the second time, and obeyed at once where they are released."""

import os
import signal

import pytest

from omni_bench.load.signals import STOP_SIGNALS, held_back_signals


def press(signal_number=signal.SIGINT):
    os.kill(os.getpid(), signal_number)


@pytest.fixture(autouse=True)
def handlers():
    """Python handlers for all of them, as the command line has."""

    def interrupt(*_):
        raise KeyboardInterrupt

    previous = {number: signal.signal(number, interrupt) for number in STOP_SIGNALS}
    yield
    for number, handler in previous.items():
        assert signal.signal(number, handler) is interrupt


@pytest.mark.parametrize("signal_number", STOP_SIGNALS)
def test_the_first_is_noted_and_the_second_takes_effect(signal_number):
    with held_back_signals() as signals:
        assert not signals.received
        press(signal_number)
        assert signals.received
        with pytest.raises(KeyboardInterrupt):
            press()


def test_released_signals_take_effect_and_later_ones_are_held_again():
    with held_back_signals() as signals:
        with pytest.raises(KeyboardInterrupt), signals.released():
            press()
        press()
        assert signals.received


def test_a_signal_that_was_noted_takes_effect_on_release():
    with held_back_signals() as signals:
        press()
        with pytest.raises(KeyboardInterrupt), signals.released():
            pytest.fail("not entered")
        assert not signals.received
