"""report.html in a real browser: it plays, draws, filters, fits a phone, and asks the network for nothing."""

from __future__ import annotations

import pytest
from browser import browser_page, find_browser
from heard_run import FAILED, SOURCE, VICTIM, make_heard_run

from omni_bench.report.write import write_report

pytestmark = [
    pytest.mark.skipif(find_browser() is None, reason="no Chromium on this machine (Debian: apt-get install chromium)"),
    pytest.mark.slow,
]


async def test_a_run_in_a_browser(tmp_path):
    path = write_report(make_heard_run(tmp_path / "run"), plots=False).with_name("report.html")
    async with browser_page(tmp_path / "profile") as page:
        await page.open(path)
        card = f"document.getElementById('card-{VICTIM}')"

        # players: real durations, only when they are near
        await page.until(f"[...{card}.querySelectorAll('audio')].filter(one => one.readyState >= 1).length === 3")
        durations = await page.js(f"[...{card}.querySelectorAll('audio')].map(one => one.duration)")
        assert durations == pytest.approx([5 - 1 / 24, 5, 5], abs=0.01)
        assert await page.js(f"[...{card}.querySelectorAll('.wave path')].every(one => one.getBBox().width > 200)")
        assert await page.js(f"{card}.querySelectorAll('.wave .part').length") == 2

        # A, then B from the same place
        await page.key("j")
        await page.key("a")
        await page.until(f"{card}.querySelectorAll('audio')[0].currentTime > 0.1")
        await page.key("b")
        await page.until(f"!{card}.querySelectorAll('audio')[1].paused")
        assert await page.js(f"{card}.querySelectorAll('audio')[1].currentTime") >= 0.1
        await page.until(f"{card}.querySelectorAll('audio')[0].paused")

        # filters
        visible = "[...document.querySelectorAll('.card')].filter(one => !one.hidden).map(one => one.dataset.id)"
        await page.js("(f => { f.tag.value = 'cross-talk'; f.dispatchEvent(new Event('input')) })(document.forms[0])")
        assert await page.js(visible) == [VICTIM]
        await page.js("document.forms[0].reset()")
        await page.until(f"{visible}.length === 5")
        assert await page.js(f"{visible}[1]") == FAILED
        await page.js("document.querySelector('[data-show]').click()")
        assert await page.js(visible) == [VICTIM]

        # the lanes: neighbours of the victim, and the arrow from the source
        await page.js(f"{card}.querySelector('.who').click()")
        near = "[...document.querySelectorAll('.lanes .bar.near')].map(one => one.dataset.id)"
        neighbours = set(await page.js(near))
        assert {VICTIM, SOURCE} <= neighbours and "c4-0007" not in neighbours  # of the next wave
        assert await page.js("document.querySelectorAll('.lanes .arrow.near').length") == 1
        sides = "(a => [+a.getAttribute('y1'), +a.getAttribute('y2')])(document.querySelector('.arrow'))"
        source_y, victim_y = await page.js(sides)
        assert victim_y > source_y  # the source has slot 0, the victim slot 1

        # the dots: as many as requests, and a click leads to the card
        count = "[...document.querySelectorAll('#distributions svg')].map(one => one.querySelectorAll('circle').length)"
        assert await page.js(count) == [8] * 3
        await page.js("document.querySelector('#distributions circle.wrong').dispatchEvent(new Event('click'))")
        assert await page.js("document.querySelector('.card.current').dataset.id") == VICTIM

        await page.js("document.querySelectorAll('details').forEach(one => one.open = true)")
        for width in (360, 800, 1600):
            await page.open(path, width=width)
            await page.js("document.querySelectorAll('details').forEach(one => one.open = true)")
            wide = "[document.documentElement.scrollWidth, innerWidth]"
            scroll_width, inner_width = await page.js(wide)
            assert scroll_width <= inner_width, width

        background = "getComputedStyle(document.body).backgroundColor"
        light = await page.js(background)
        await page.open(path, dark=True)
        assert light == "rgb(255, 255, 255)" and await page.js(background) != light

        assert page.problems == []
        asked = {address for address in page.requested if not address.startswith("data:")}
        assert asked == {path.as_uri()}


async def test_recordings_that_are_links_play_and_a_foreign_script_does_not_run(tmp_path, monkeypatch):
    monkeypatch.setattr("omni_bench.report.page.recordings.EMBEDDED_MB", 0.0)
    path = write_report(make_heard_run(tmp_path / "run"), plots=False).with_name("report.html")
    path.write_text(path.read_text().replace("<main>", "<main><script>document.title = 'taken'</script>"))
    async with browser_page(tmp_path / "profile") as page:
        await page.open(path)
        await page.until("[...document.querySelectorAll('audio')].filter(one => one.readyState >= 1).length >= 3")
        assert await page.js("document.title") != "taken"
        assert len(page.problems) == 1 and "Content Security Policy" in page.problems[0]
