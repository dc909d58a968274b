"""Somebody at the dashboard: a page of the browser, and everything that went wrong on it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import ConsoleMessage, Dialog, Locator, Page

_TELL = (
    "addEventListener('securitypolicyviolation', (e) => console.error('policy:', e.violatedDirective, e.blockedURI))"
)
_LONGEST = 20_000  # milliseconds until something that is waited for has to be there
_STATUS = "Failed to load resource: the server responded with a status of 4"  # of an error page that a test asks for


class Visitor:
    """One window at the dashboard of a store."""

    def __init__(self, page: "Page", address: str) -> None:
        self.page = page
        self.wrong: list[str] = []
        self._address = address
        self._store = ""
        page.set_default_timeout(_LONGEST)
        page.add_init_script(_TELL)
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.wrong.append(f"a script failed: {error}"))
        page.on("dialog", self._refuse)

    def enter(self, path: str) -> None:
        """Use the printed address, then go to a page of its store."""
        self.page.goto(self._address)
        self._store = self.page.url.removesuffix("/runs")
        self.go(path)

    def go(self, path: str) -> None:
        """Go to a page of the store; it is ready when it hears what happens."""
        self.page.goto(f"{self._store}{path}")
        live = self.page.locator("#live")
        if live.count():
            live.filter(has_text="live").wait_for()

    def find(self, selector: str) -> "Locator":
        """Something on the page."""
        return self.page.locator(selector)

    def focused(self) -> str:
        """What has the focus: its id, or else its text."""
        said: str = self.page.evaluate("document.activeElement.id || document.activeElement.textContent.trim()")
        return said

    def tab_to(self, wanted: str, most: int = 60) -> None:
        """Press Tab until something has the focus, as somebody without a mouse does."""
        for _ in range(most):
            if self.focused() == wanted:
                return
            self.page.keyboard.press("Tab")
        raise AssertionError(f'"{wanted}" is not reached with {most} presses of Tab')

    def overflow(self) -> int:
        """By how many pixels the page is wider than its window."""
        wider: int = self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        return wider

    def _hear(self, message: "ConsoleMessage") -> None:
        if message.type in ("error", "warning") and not message.text.startswith(_STATUS):
            self.wrong.append(f"on the console: {message.text}")

    def _refuse(self, dialog: "Dialog") -> None:
        self.wrong.append(f"a dialog: {dialog.message}")
        dialog.dismiss()
