"""Pages in a real browser: every page opened here is watched for errors and for requests."""

import os
import shutil
from contextlib import contextmanager

import pytest


@contextmanager
def chromium():
    """Debian's Chromium under Playwright; the tests are skipped where there is none."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        text = "there is no Chromium here; install Debian's package chromium to run these tests"
        if os.environ.get("PARTWISE_NEEDS_BROWSER"):
            pytest.fail(text)
        pytest.skip(text)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        yield browser
        browser.close()


@contextmanager
def opened(browser, path, forgiven=None, **options):
    """A page from a file; afterwards it has logged no error and asked for nothing else.

    Complaints that speak of what is ``forgiven`` do not count.
    """
    context = browser.new_context(**options)
    complaints, address = [], path.resolve().as_uri()

    def on_request(route):
        if route.request.url != address:
            complaints.append(f"asked for {route.request.url[:80]}")
            route.abort()
        else:
            route.continue_()

    context.route("**/*", on_request)
    page = context.new_page()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
    page.on(
        "console",
        lambda message: message.type == "error" and complaints.append(message.text),
    )
    page.goto(address)
    yield page
    context.close()
    assert not [text for text in complaints if forgiven is None or forgiven not in text], complaints
