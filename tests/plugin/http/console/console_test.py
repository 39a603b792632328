# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The console in headless Chromium, with a fake server."""

import json
import os
import unittest

import browser
import junit
import page_checks
import stand_in
import stand_in_data as data

FOLDER = os.path.join(os.environ.get("TEST_SRCDIR", ""), os.environ.get("TEST_WORKSPACE", ""),
                      "plugin/http/console")

# Text that each view has when its figures have arrived.
VIEWS = {
    "overview": "MiB/s",
    "methods": "EmbeddingTable:lookup_bags",
    "tables": "1,000 tables",
    "rounds": "batch 1021, bucket 3",
    "connections": "200 connections",
    "limits": "rendezvous",
    "durability": "snapshot-00000000000009183200",
    "slow": "ParameterServer:average_gradient",
    "server": "--ntrainer",
}
EMPTY = {
    "tables": "This server holds no tables.",
    "connections": "There are no connections.",
    "rounds": "does not serve ParameterServer",
    "limits": "This server has no quotas.",
    "durability": "This server has no data directory",
    "slow": "does not time its calls",
}


@unittest.skipIf(browser.missing(), browser.missing())
class Console(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.__exit__)

    def setUp(self):
        self.server = stand_in.StandIn(FOLDER)
        self.server.__enter__()
        self.addCleanup(self.server.__exit__)
        self.browser.set_size(browser.DESKTOP)
        self.browser.set_scheme("light")

    def open(self, view="overview"):
        self.browser.open(self.server.url, view)
        if view in VIEWS:
            self.browser.wait_for_text(VIEWS[view], "main")

    def assert_no_complaints(self, *checks):
        self.assertEqual([self.browser.run(check) for check in checks], [[]] * len(checks))
        self.assertEqual(self.browser.take_errors(), [])

    # -- all views

    def test_every_view_in_light_and_dark(self):
        for scheme in ("light", "dark"):
            self.browser.set_scheme(scheme)
            for view in VIEWS:
                with self.subTest(view=view, scheme=scheme):
                    self.open(view)
                    self.browser.save_screenshot("%s-%s" % (view, scheme))
                    self.assert_no_complaints(page_checks.LOW_CONTRAST, page_checks.UNNAMED,
                                              page_checks.TOO_WIDE)

    def test_every_view_on_a_phone(self):
        self.browser.set_size(browser.PHONE)
        for view in VIEWS:
            with self.subTest(view=view):
                self.open(view)
                self.browser.save_screenshot("%s-phone" % view)
                self.assert_no_complaints(page_checks.TOO_WIDE, page_checks.LOW_CONTRAST)

    def test_views_of_a_phone_are_reached_by_the_button(self):
        self.browser.set_size(browser.PHONE)
        self.open()
        self.assertEqual(self.browser.find("#nav-list a"), [])
        self.browser.wait_for("#nav-button").click()
        self.browser.wait_for("#nav-list a[href='#/tables']").click()
        self.browser.wait_for_text(VIEWS["tables"], "main")
        self.assertEqual(self.browser.find("#nav-list a"), [])

    def test_middle_widths(self):
        for width in (761, 1024, 1280, 1920):
            self.browser.set_size((width, 900))
            for view in ("overview", "connections", "slow"):
                with self.subTest(view=view, width=width):
                    self.open(view)
                    self.assert_no_complaints(page_checks.TOO_WIDE)
                    narrow = self.browser.run("return [...document.querySelectorAll('.grid th')]"
                                              ".filter((each) => each.checkVisibility()"
                                              " && each.offsetWidth < 40).length")
                    self.assertEqual(narrow, 0)

    def test_views_of_an_empty_server(self):
        self.server.set(is_empty=True)
        for view, words in EMPTY.items():
            with self.subTest(view=view):
                self.browser.open(self.server.url, view)
                self.browser.wait_for_text(words, "main")
                self.assert_no_complaints(page_checks.LOW_CONTRAST)

    # -- text of peers

    def test_names_are_never_markup(self):
        for view in ("tables", "connections", "limits", "slow", "server"):
            with self.subTest(view=view):
                self.open(view)
                self.browser.wait_for_text("<img src=x", "main")
                self.assertEqual(self.browser.run(
                    "return document.querySelectorAll('main img, main script, main b').length"), 0)
                self.assertNotIn("taken over", self.browser.driver.title)
                self.assert_no_complaints(page_checks.TOO_WIDE)

    def test_a_hostile_name_is_shown_in_full_in_its_details(self):
        self.open("tables")
        self.browser.wait_for(".filter").send_keys("<img src=x")
        self.browser.wait_for_text("1 of 1,000 tables")
        self.browser.wait_for(".grid tbody tr[tabindex='0']").click()
        self.assertIn(data.IMAGE, self.browser.wait_for("dialog h2").text)

    # -- grids

    def rows(self):
        return self.browser.run(
            "return [...document.querySelectorAll('.grid tbody tr:not(.spacer)')]"
            ".map((row) => row.cells[0].innerText)")

    def test_a_thousand_tables_are_drawn_where_they_are_seen(self):
        self.open("tables")
        self.assertLess(len(self.rows()), 100)
        table = self.browser.wait_for("table.grid")
        self.assertEqual(table.get_attribute("aria-rowcount"), "1001")
        self.browser.run("document.querySelector('.grid-scroller').scrollTop = 1e6")
        self.browser.wait("the last row", lambda: self.browser.find("[aria-rowindex='1001']"))
        self.assertLess(len(self.rows()), 100)

    def test_sort_and_filter(self):
        self.open("tables")
        largest = max(data.tables(1), key=lambda each: each["bytes"])["name"]
        header = next(each for each in self.browser.find(".sort") if each.text.startswith("Size"))
        header.click()
        self.browser.wait("sorted", lambda: self.rows()[0] == largest)
        cell = header.find_element(browser.By.XPATH, "..")
        self.assertEqual(cell.get_attribute("aria-sort"), "descending")
        header.click()
        self.browser.wait("turned", lambda: self.rows()[0] != largest)
        self.browser.wait_for(".filter").send_keys("SEARCH/words 5")
        names = [each["name"] for each in data.tables(1)]
        matching = [name for name in names if "search/words" in name and "5" in name]
        self.browser.wait_for_text("%d of 1,000 tables" % len(matching))
        self.browser.press("zzz")
        self.browser.wait_for_text("No tables match")

    def test_keys_of_a_grid(self):
        self.open("tables")
        self.browser.run("document.querySelector('.grid tbody tr[tabindex=\"0\"]').focus()")
        first = self.browser.focused("innerText")
        self.browser.press("ARROW_DOWN", "ARROW_DOWN", "ARROW_UP")
        self.assertEqual(self.browser.focused("getAttribute('aria-rowindex')"), "3")
        self.browser.press("END")
        self.assertEqual(self.browser.focused("getAttribute('aria-rowindex')"), "1001")
        self.browser.press("PAGE_UP")
        self.assertLess(int(self.browser.focused("getAttribute('aria-rowindex')")), 1000)
        self.browser.press("HOME")
        self.assertEqual(self.browser.focused("innerText").split()[0], first.split()[0])
        self.browser.press("ENTER")
        self.assertIn("Rows of all shards", self.browser.wait_for("dialog").text)
        self.assert_no_complaints(page_checks.LOW_CONTRAST, page_checks.UNNAMED)
        self.browser.press("ESCAPE")
        self.browser.wait("closed", lambda: not self.browser.find("dialog"))
        self.assertEqual(self.browser.focused("getAttribute('aria-rowindex')"), "2")

    def test_the_focus_stays_on_its_row_when_figures_change(self):
        self.open("connections")
        self.browser.run("document.querySelector('.grid tbody tr[tabindex=\"0\"]').focus()")
        self.browser.press("ARROW_DOWN", "ARROW_DOWN")
        peer = self.browser.focused("cells[0].innerText")
        n_requests = self.server.paths.count("/connections")
        self.browser.wait("two more answers",
                          lambda: self.server.paths.count("/connections") >= n_requests + 2)
        self.assertEqual(self.browser.focused("cells[0].innerText"), peer)

    # -- keys

    def test_the_first_stop_skips_to_the_content(self):
        self.open()
        self.browser.press("TAB")
        self.assertEqual(self.browser.focused("id"), "skip")
        self.browser.press("ENTER")
        self.assertEqual(self.browser.focused("id"), "main")

    def test_the_focus_is_always_seen(self):
        for view in ("overview", "tables", "limits"):
            self.open(view)
            stops = []
            while not stops or stops[-1] != "BODY":
                self.browser.press("TAB")
                stops.append(self.browser.focused("tagName"))
                self.assertTrue(self.browser.run(page_checks.FOCUS_IS_SEEN), stops)
            self.assertTrue(20 < len(stops) < 60, stops)

    def test_shortcuts(self):
        self.open()
        self.browser.press("3")
        self.browser.wait_for_text(VIEWS["tables"], "main")
        self.browser.press("/")
        self.assertEqual(self.browser.focused("type"), "search")
        self.browser.press("1t?")
        self.assertEqual(self.browser.focused("value"), "1t?")
        self.browser.run("document.activeElement.blur()")
        self.browser.press("?")
        self.assertIn("This help", self.browser.wait_for("dialog").text)
        self.assert_no_complaints(page_checks.LOW_CONTRAST, page_checks.UNNAMED)
        self.browser.wait_for("#letters").click()
        self.browser.press("ESCAPE")
        self.browser.press("1")
        self.assertTrue(self.browser.run("return location.hash === '#/tables'"))

    def test_the_theme_is_chosen_and_kept(self):
        self.open()
        ground = "return getComputedStyle(document.documentElement).backgroundColor"
        light = self.browser.run(ground)
        self.browser.press("t", "t")
        dark = self.browser.run(ground)
        self.assertNotEqual(light, dark)
        self.open("tables")
        self.assertEqual(self.browser.run(ground), dark)
        self.browser.set_scheme("dark")
        self.browser.press("t", "t")
        self.assertEqual(self.browser.run(ground), light)

    # -- charts

    def test_charts_are_drawn_and_can_be_read(self):
        for view, n_charts in (("overview", 6), ("durability", 3)):
            self.open(view)
            self.assertEqual(len(self.browser.find("canvas[role=slider]")), n_charts)
            self.browser.wait("drawn", lambda: not self.browser.run(page_checks.BLANK_CHARTS))
            details = self.browser.find(".figure-data summary")[0]
            details.click()
            table = self.browser.wait_for(".figure-table table")
            self.assertIn("newest first", table.text)
            self.assertEqual(len(table.find_elements(browser.By.CSS_SELECTOR, "tbody tr")), 30)

    def test_keys_move_the_cursor_of_all_charts(self):
        self.open()
        charts = self.browser.find("canvas")
        self.browser.run("arguments[0].focus()", charts[1])
        before = [chart.get_attribute("aria-valuetext") for chart in charts]
        self.browser.press("PAGE_UP")
        after = [chart.get_attribute("aria-valuetext") for chart in charts]
        self.assertRegex(after[1], r"^\d\d:\d\d:\d\d: p50 .*s, p95 .*s, p99 .*s$")
        self.assertTrue(all(old != new for old, new in zip(before, after)))
        self.browser.press("ESCAPE")
        self.browser.wait_for_text("now", ".reading-time")

    def test_the_span_can_be_chosen(self):
        self.open()
        self.browser.wait_for(".switch label:nth-of-type(2)").click()
        self.browser.wait_for(".figure-data summary").click()
        self.browser.wait_for_text("steps of 5 s", "caption")
        self.browser.save_screenshot("overview-10-min")

    def test_what_needs_attention(self):
        self.open()
        self.browser.wait_for_text("Tenant search: 98 % of rows_per_s is used.", ".attention")
        self.browser.wait_for_text("A round has been open for 21.5 s", ".attention")

    def test_the_focus_stays_on_a_note_while_its_figures_change(self):
        self.open()
        self.browser.wait_for_text("calls failed", ".attention")
        note = self.browser.find(".attention a")[2]
        self.browser.run("arguments[0].focus()", note)
        before = note.text
        self.browser.wait("other figures", lambda: note.text != before)
        self.assertTrue(self.browser.run("return document.activeElement === arguments[0]", note))

    # -- the link to the server

    def test_a_lost_connection_comes_back_by_itself(self):
        self.open("tables")
        self.browser.wait_for_text("live", "#link")
        self.server.set(is_gone=True)
        self.browser.wait_for_text("Connection lost at ", "#banner")
        self.browser.wait_for_text("connection lost", "#link")
        self.browser.wait_for_text("Next attempt in ", "#banner")
        self.browser.save_screenshot("lost")
        self.assert_no_complaints(page_checks.LOW_CONTRAST, page_checks.TOO_WIDE)
        self.assertIn("1,000 tables", self.browser.text("main"))
        self.server.set(is_gone=False)
        self.browser.wait_for_text("live", "#link")
        self.assertEqual(self.browser.text("#banner"), "")

    def test_a_page_that_was_left_holds_no_stream(self):
        self.open()
        self.browser.driver.get(self.server.url + "/console/icon.svg")
        self.browser.wait("the end of the stream", lambda: self.server.n_streams == 0)
        self.browser.driver.back()
        self.browser.wait_for_text("live", "#link")
        self.browser.wait("a stream", lambda: self.server.n_streams == 1)

    def test_an_attempt_can_be_asked_for(self):
        self.open()
        self.server.set(is_gone=True)
        button = self.browser.wait_for("#banner button")
        self.server.set(is_gone=False)
        button.click()
        self.browser.wait_for_text("live", "#link")

    def test_an_answer_that_fails_is_told_and_asked_for_again(self):
        self.server.set(failing={"/tables"})
        self.browser.open(self.server.url, "tables")
        self.browser.wait_for_text("There are no figures: too many connections.", "main")
        self.server.set(failing=set())
        self.browser.wait_for_text(VIEWS["tables"], "main")
        self.server.set(failing={"/tables"})
        self.browser.wait_for_text("These figures are those of ", "main")
        self.assertIn("1,000 tables", self.browser.text("main"))

    def test_a_token_is_asked_for_and_kept_in_memory_alone(self):
        self.server.set(token="a secret")
        self.browser.open(self.server.url, "tables")
        self.browser.wait_for_text("This server wants a token.", "#banner")
        self.browser.save_screenshot("token")
        self.assert_no_complaints(page_checks.LOW_CONTRAST, page_checks.UNNAMED)
        self.browser.wait_for("#token").send_keys("a guess\n")
        self.browser.wait_for_text("The token was refused.", "#banner")
        self.browser.wait_for("#token").send_keys("a secret\n")
        self.browser.wait_for_text(VIEWS["tables"], "main")
        self.browser.wait_for_text("live", "#link")
        kept = self.browser.run(
            "return JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie,"
            " location.href, document.documentElement.outerHTML, history.state])")
        self.assertNotIn("a secret", kept)
        self.assertNotIn("a secret", json.dumps(self.server.paths))

    def test_a_missing_right_is_told(self):
        self.server.set(is_forbidden=True)
        self.browser.open(self.server.url)
        self.browser.wait_for_text("it lacks the right “admin”", "#banner")
        self.browser.wait_for_text("not allowed", "#link")

    def test_a_hidden_page_asks_for_nothing(self):
        self.open("rounds")
        first = self.browser.driver.current_window_handle
        self.browser.driver.switch_to.new_window("tab")
        self.addCleanup(self.browser.driver.switch_to.window, first)
        self.addCleanup(self.browser.driver.close)
        begin_s = self.server.elapsed_s
        self.browser.wait("a sample", lambda: self.server.elapsed_s > begin_s + 1)
        n_requests = self.server.paths.count("/rounds")
        self.browser.wait("samples", lambda: self.server.elapsed_s > begin_s + 5)
        self.assertEqual(self.server.paths.count("/rounds"), n_requests)

    def test_pause_stops_the_figures(self):
        self.open("rounds")
        self.browser.press("p")
        self.assertEqual(self.browser.find("[aria-pressed=true]")[0].text, "Pause")
        begin_s = self.server.elapsed_s
        self.browser.wait("a sample", lambda: self.server.elapsed_s > begin_s + 1)
        n_requests = self.server.paths.count("/rounds")
        self.browser.wait("samples", lambda: self.server.elapsed_s > begin_s + 4)
        self.assertEqual(self.server.paths.count("/rounds"), n_requests)
        self.browser.press("p")
        self.browser.wait("again", lambda: self.server.paths.count("/rounds") > n_requests)

    # -- modules

    def test_events_may_be_cut_anywhere(self):
        self.browser.open(self.server.url)
        found = self.browser.run_module("""
          const { EventParser } = await import("/console/server/event_stream.js");
          const text = ": comment\\n\\nevent: a\\r\\ndata: 1\\r\\n\\r\\n"
            + "id: 7\\ndata: 2\\ndata:3\\n\\nda";
          const all = new Set();
          for (let i = 0; i <= text.length; i += 1) {
            const parser = new EventParser();
            const events = [text.slice(0, i), text.slice(i)].flatMap((each) =>
              [...parser.take(each)]);
            all.add(JSON.stringify(events));
          }
          done([...all]);""")
        self.assertEqual([json.loads(each) for each in found], [[
            {"event": "a", "data": "1"}, {"event": "message", "data": "2\n3"}]])

    def test_quantiles_of_buckets(self):
        self.browser.open(self.server.url)
        self.assertEqual(self.browser.run_module("""
          const { quantileMs } = await import("/console/server/histogram.js");
          const bounds = [1000, 2000, 4000];
          done([quantileMs([0, 100, 0, 0], bounds, 1), quantileMs([0, 0, 100, 0], bounds, 0.5),
                quantileMs([50, 0, 50, 0], bounds, 0.5), quantileMs([0, 0, 0, 5], bounds, 0.5),
                quantileMs([0, 0, 0, 0], bounds, 0.5), quantileMs(null, bounds, 0.5)]
            .map((each) => each && Number(each.toFixed(3))));"""),
            [2, 2.828, 1, 4, None, None])

    def test_numbers_as_text(self):
        self.browser.open(self.server.url)
        self.assertEqual(self.browser.run_module("""
          const f = await import("/console/format.js");
          done([f.formatCount(1234567), f.formatNumber(812), f.formatNumber(999.96),
                f.formatNumber(1234), f.formatNumber(999999), f.formatBytes(1023),
                f.formatBytes(1 << 20), f.formatMs(0.0213), f.formatMs(21.3), f.formatMs(1500),
                f.formatMs(0), f.formatSeconds(200), f.formatSeconds(90061), f.formatPercent(0.034),
                f.formatPercent(0.0001),
                f.formatCount(null), f.formatTick("20.0 k/s"), f.formatTick("100 ms"),
                f.splitUnit("59.7 MiB/s").join("|"), f.formatList([1, 2, 3], 2, 5)]);"""),
            ["1,234,567", "812", "1.00 k", "1.23 k", "1.00 M", "1,023 B", "1.00 MiB", "21.3 µs",
             "21.3 ms", "1.50 s", "0 ms", "3 min 20 s", "1 d 1 h", "3.4 %", "< 0.1 %", "–",
             "20 k/s", "100 ms", "59.7|MiB/s", "1, 2 and 3 more"])


if __name__ == "__main__":
    junit.main()
