# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report in a browser: nothing is loaded, every user can read it, on a phone, in the dark, on paper."""

from __future__ import annotations

import json
import typing as t
from contextlib import contextmanager
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from tests.browser.conftest import OUTPUT, Pages, report
from tests.browser.samples import Sample
from tests.waiting import wait_for

ALL = ("2", "64", "1024", "ok", "crowd")
WIDE, PHONE = 1280, 360
MARKUP = "<script>window.ran = 1</script><img src=x onerror='window.ran = 1'>"


@contextmanager
def opened(browser: Browser, path: Path, width: int = WIDE, scheme: t.Any = "light", **more: t.Any) -> t.Iterator[Page]:
    """A page; any request beside itself, message on the console or dialog is an error."""
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme, **more)
    context.set_default_timeout(120_000)
    page = context.new_page()
    wrong: list[str] = []
    page.on(
        "request", lambda request: None if request.url == path.as_uri() else wrong.append("asks for " + request.url)
    )
    page.on("console", lambda message: wrong.append("console: " + message.text))
    page.on("pageerror", lambda error: wrong.append("fails with %s" % error))
    page.on("dialog", lambda dialog: wrong.append("asks " + dialog.message))
    page.goto(path.as_uri())
    yield page
    context.close()
    assert wrong == []


def _picture(page: Page, name: str) -> None:
    OUTPUT.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=str(OUTPUT / ("report-%s.png" % name)), full_page=True)


@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [
        ("2", WIDE, "light"),
        ("2", PHONE, "dark"),
        ("64", PHONE, "light"),
        ("64", WIDE, "dark"),
        ("1024", WIDE, "light"),
        ("ok", PHONE, "light"),
        ("crowd", WIDE, "dark"),
    ],
)
def test_every_user_can_read_it(browser: Browser, pages: Pages, name: str, width: int, scheme: str) -> None:
    """Nothing is loaded (see above), nothing hangs over the edge, and axe finds nothing, contrasts among it."""
    with opened(browser, pages(name), width, scheme) as page:
        _picture(page, "%s-%s-%s" % (name, scheme, "phone" if width == PHONE else "wide"))
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
        assert dark is (scheme == "dark")
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        # one row of a matrix represents all: their cells are alike, and axe looks at each for seconds
        page.evaluate("document.querySelectorAll('.matrix tbody tr:nth-child(n+3)').forEach(each => each.remove())")
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()


def test_the_smallest_phone(browser: Browser, pages: Pages) -> None:
    for name in ALL:
        with opened(browser, pages(name), 320) as page:
            assert page.evaluate("document.documentElement.scrollWidth") <= 320, name


def test_long_names_stay_on_the_page(browser: Browser, tmp_path: Path) -> None:
    sample = Sample(2)
    long = "n" * 63 + "." + "x" * 63 + "." + "y" * 63
    for node in sample.plan["nodes"]:
        node["name"] = long + node["name"]
    sample.nodes = [node["name"] for node in sample.plan["nodes"]]
    path = report(sample.write(tmp_path, 2))
    for width in (WIDE, PHONE):
        with opened(browser, path, width) as page:
            assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_colours_are_not_needed(browser: Browser, pages: Pages) -> None:
    """Each state has a sign of its own in the matrix."""
    with opened(browser, pages("64")) as page:
        signs = page.evaluate("""
            Object.fromEntries(['ok', 'failed', 'open'].map(kind => {
              const cells = [...document.querySelectorAll('.matrix td.' + kind)]
              return [kind, [...new Set(cells.map(cell => cell.textContent))]]
            }))""")
    assert signs == {"ok": ["✓"], "failed": ["✕"], "open": ["–"]}


# -- by keyboard

FOCUSED = """() => {
  const at = document.activeElement, box = at.getBoundingClientRect(), style = getComputedStyle(at)
  const all = [...document.querySelectorAll('*')]
  return {place: all.indexOf(at), tag: at.tagName, id: at.id, text: at.innerText || at.getAttribute('aria-label') || '',
          seen: box.width > 0 && box.height > 0 && box.bottom > 0 && box.top < innerHeight && box.left >= 0,
          outline: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2}
}"""


def test_the_keyboard_reaches_everything_in_order(browser: Browser, pages: Pages) -> None:
    with opened(browser, pages("2")) as page:
        expected = page.evaluate("""
            [...document.querySelectorAll('a[href], summary, [tabindex="0"]')].filter(
              each => !each.closest('details:not([open]) > :not(summary)')).length""")
        places = []
        for _press in range(expected):
            page.keyboard.press("Tab")
            focused = page.evaluate(FOCUSED)
            assert focused["seen"] and focused["outline"], focused
            places.append(focused["place"])
        assert places == sorted(set(places)) and expected > 15, "in the order of the page, each once"


def test_one_key_leads_past_the_links(browser: Browser, pages: Pages) -> None:
    with opened(browser, pages("2")) as page:
        page.keyboard.press("Tab")
        assert page.evaluate(FOCUSED)["text"] == "Skip to the report"
        page.keyboard.press("Enter")
        assert page.evaluate(FOCUSED)["id"] == "main"


def test_hidden_parts_open_by_keyboard(browser: Browser, pages: Pages) -> None:
    with opened(browser, pages("2")) as page:
        summary = page.locator("summary").first
        summary.focus()
        page.keyboard.press("Enter")
        assert summary.evaluate("each => each.parentElement.open")


def test_a_failed_cell_leads_to_what_to_do(browser: Browser, pages: Pages) -> None:
    with opened(browser, pages("2")) as page:
        cell = page.locator(".matrix td.failed a")
        assert cell.get_attribute("aria-label") == "ai-10-1-16-2 gpu02 failed: why"
        cell.focus()
        page.keyboard.press("Enter")
        wait_for(lambda: page.evaluate("location.hash") == "#step-1")
        assert page.locator("#step-1").evaluate("each => each.getBoundingClientRect().top") < 800


def test_a_failed_cell_opens_the_step_that_is_not_shown(browser: Browser, pages: Pages) -> None:
    with opened(browser, pages("crowd")) as page:
        assert not page.locator("#step-12").is_visible()
        page.locator(".matrix td.failed a[href='#step-12']").click()
        page.locator("#step-12").wait_for(state="visible")


def test_a_picture_that_is_too_wide_scrolls_by_key(browser: Browser, pages: Pages) -> None:
    with opened(browser, pages("2"), PHONE) as page:
        picture = page.locator(".picture")
        picture.focus()
        for _press in range(3):
            page.keyboard.press("ArrowRight")
        wait_for(lambda: picture.evaluate("each => each.scrollLeft") > 0)


# -- on paper


@pytest.mark.parametrize("name", ["2", "64"])
def test_on_paper_it_is_light_and_whole(browser: Browser, pages: Pages, name: str) -> None:
    with opened(browser, pages(name), 720, "dark") as page:
        page.emulate_media(media="print", color_scheme="dark")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert not page.locator("nav").is_visible()
        hidden = page.evaluate("""
            [...document.querySelectorAll('details')].filter(each => !each.open && each.lastElementChild
              .checkVisibility({contentVisibilityAuto: true}) === false).length""")
        assert page.locator("details").count() > 1 and hidden == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= 720
        _picture(page, name + "-paper")
        paper = page.pdf(format="A4")
        OUTPUT.joinpath("report-%s.pdf" % name).write_bytes(paper)
        assert paper.startswith(b"%PDF-") and paper.count(b"/Type /Page\n") >= 3


# -- what is in documents is never run


def test_markup_in_names_is_a_text(browser: Browser, tmp_path: Path) -> None:
    sample = Sample(2)
    for node in sample.plan["nodes"]:
        node["name"] += MARKUP
    sample.nodes = [node["name"] for node in sample.plan["nodes"]]
    sample.write(tmp_path, 2)
    verify = json.loads((tmp_path / "verify.json").read_text())
    for failure in verify["failures"]:
        failure.update(dict.fromkeys(("what", "expected", "found", "cause", "remedy", "playbook"), MARKUP))
    (tmp_path / "verify.json").write_text(json.dumps(verify))
    with opened(browser, report(tmp_path)) as page:
        assert page.evaluate("window.ran") is None
        assert page.locator("img, script").count() == 0
        assert page.locator("#first p", has_text="<script>window.ran = 1</script>").first.is_visible()
