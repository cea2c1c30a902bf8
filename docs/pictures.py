"""The pictures of a report in the README, taken of examples/report.html; `make example` runs it."""

from pathlib import Path

from playwright.sync_api import sync_playwright

HERE = Path(__file__).parent
CHROMIUM = Path("/usr/bin/chromium")


def main() -> None:
    """Write both."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=str(CHROMIUM) if CHROMIUM.exists() else None, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1100, "height": 880})
        page.goto((HERE.parent / "examples/report.html").as_uri())
        page.screenshot(path=HERE / "report-scores.png")
        page.keyboard.press("j")
        drawing = page.locator(".turn", has=page.locator(".outputs")).first
        drawing.locator("summary").first.click()
        drawing.scroll_into_view_if_needed()
        drawing.evaluate("turn => turn.scrollIntoView({block: 'start'})")
        page.wait_for_timeout(500)
        page.screenshot(path=HERE / "report-dialogue.png")
        browser.close()


if __name__ == "__main__":
    main()
