"""A browser page at the dashboard, and everything that went wrong on it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import ConsoleMessage, Dialog, Locator, Page

_REPORT_VIOLATIONS = (
    "addEventListener('securitypolicyviolation', (e) => console.error('policy:', e.violatedDirective, e.blockedURI))"
)
_TIMEOUT = 20_000  # milliseconds
_STATUS = "Failed to load resource: the server responded with a status of 4"  # of an error page that a test opens


class Visitor:
    """A window at the dashboard of a store."""

    def __init__(self, page: "Page", address: str) -> None:
        self.page = page
        self.problems: list[str] = []
        self._address = address
        self._store = ""
        page.set_default_timeout(_TIMEOUT)
        page.add_init_script(_REPORT_VIOLATIONS)
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.problems.append(f"a script failed: {error}"))
        page.on("dialog", self._on_dialog)

    def enter(self, path: str) -> None:
        """Open the printed address, then a page of its store."""
        self.page.goto(self._address)
        self._store = self.page.url.removesuffix("/runs")
        self.go(path)

    def go(self, path: str) -> None:
        """Open a page of the store, and wait until it is live."""
        self.page.goto(f"{self._store}{path}")
        live = self.page.locator("#live")
        if live.count():
            live.filter(has_text="live").wait_for()

    def find(self, selector: str) -> "Locator":
        """Elements of the page."""
        return self.page.locator(selector)

    def focused(self) -> str:
        """The id of the focused element, or else its text."""
        focused: str = self.page.evaluate("document.activeElement.id || document.activeElement.textContent.trim()")
        return focused

    def tab_to(self, wanted: str, most: int = 60) -> None:
        """Press Tab until an element has the focus."""
        for _ in range(most):
            if self.focused() == wanted:
                return
            self.page.keyboard.press("Tab")
        raise AssertionError(f'"{wanted}" is not reached with {most} presses of Tab')

    def overflow(self) -> int:
        """By how many pixels the page is wider than its window."""
        wider: int = self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        return wider

    def _on_console(self, message: "ConsoleMessage") -> None:
        if message.type in ("error", "warning") and not message.text.startswith(_STATUS):
            self.problems.append(f"on the console: {message.text}")

    def _on_dialog(self, dialog: "Dialog") -> None:
        self.problems.append(f"a dialog: {dialog.message}")
        dialog.dismiss()
