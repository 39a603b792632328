# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Headless Chromium with the console in it."""

import os
import shutil
import tempfile

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait
except ImportError:
    webdriver = None

WAIT_S = 60
PROGRAMS = ("/usr/bin/chromium", "/usr/bin/chromedriver")
# Root and containers have no rights for Chromium's sandbox, and /dev/shm may be small.
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
         "--disable-background-networking", "--disable-component-update", "--no-first-run",
         "--hide-scrollbars", "--lang=en")
DESKTOP = (1360, 900)
PHONE = (360, 740)


def missing():
    """The reason why there is no browser; None if there is one."""
    if webdriver is None:
        return "python3-selenium is not installed"
    return next(("%s is not installed" % path for path in PROGRAMS if not os.path.exists(path)),
                None)


class Browser:
    """A browser with a profile of its own. A context manager."""

    def __init__(self):
        self._profile = tempfile.mkdtemp(prefix="console.")
        options = webdriver.ChromeOptions()
        options.binary_location = PROGRAMS[0]
        for flag in (*FLAGS, "--user-data-dir=" + self._profile):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        # Chromium needs a home folder, but Bazel's sandbox has none.
        home = dict(os.environ, HOME=self._profile, XDG_CONFIG_HOME=self._profile,
                    XDG_CACHE_HOME=self._profile)
        self.driver = webdriver.Chrome(service=Service(PROGRAMS[1], env=home), options=options)
        self.driver.set_script_timeout(WAIT_S)
        self.set_size(DESKTOP)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.driver.quit()
        shutil.rmtree(self._profile, ignore_errors=True)

    def set_size(self, size):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": size[0], "height": size[1], "deviceScaleFactor": 2, "mobile": size == PHONE})

    def set_scheme(self, scheme):
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": scheme}]})

    def open(self, url, view="overview"):
        """Reloads the page with the view, without waiting for figures."""
        self.driver.get("about:blank")
        self.driver.get_log("browser")
        self.driver.get("%s/#/%s" % (url, view))

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def run_module(self, script):
        """The argument that the script passes to `done (value)`; the script may import modules of
        the page."""
        return self.driver.execute_async_script(
            "const done = arguments[arguments.length - 1];"
            "(async () => {%s})().catch((error) => done('' + error));" % script)

    def wait(self, what, condition):
        """Waits until `condition ()` is true, and returns it."""
        return WebDriverWait(self.driver, WAIT_S, poll_frequency=0.05).until(
            lambda _: condition(), what)

    def find(self, selector):
        """The visible elements."""
        return [element for element in self.driver.find_elements(By.CSS_SELECTOR, selector)
                if element.is_displayed()]

    def wait_for(self, selector):
        return self.wait(selector, lambda: self.find(selector))[0]

    def text(self, selector="body"):
        """The visible text, in one call."""
        return self.run("return [...document.querySelectorAll(arguments[0])]"
                        ".filter((each) => each.checkVisibility())"
                        ".map((each) => each.innerText).join('\\n')", selector)

    def wait_for_text(self, text, selector="body"):
        self.wait("%r in %s" % (text, selector), lambda: text in self.text(selector))

    def press(self, *keys):
        """Presses keys in order: names such as "ARROW_DOWN", or text."""
        for key in keys:
            webdriver.ActionChains(self.driver).send_keys(getattr(Keys, key, key)).perform()

    def focused(self, script):
        """A property of the focused element: "id", "tagName", ..."""
        return self.run("return document.activeElement." + script)

    def take_errors(self):
        """Errors and warnings of the page since the last call, except for failed requests."""
        return [entry["message"] for entry in self.driver.get_log("browser")
                if entry["level"] in ("SEVERE", "WARNING") and entry["source"] != "network"]

    def save_screenshot(self, name):
        folder = os.environ.get("TEST_UNDECLARED_OUTPUTS_DIR")
        if folder:
            self.driver.save_screenshot(os.path.join(folder, name + ".png"))
