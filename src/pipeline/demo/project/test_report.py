import unittest

import report


class Pages(unittest.TestCase):
    def test_fills_pages(self):
        self.assertEqual(report.pages(["a", "b", "c", "d"], 2), [["a", "b"], ["c", "d"]])

    def test_keeps_the_last_line(self):
        self.assertEqual(report.pages(["a", "b", "c"], 2), [["a", "b"], ["c"]])


class MatchingTest(unittest.TestCase):
    def test_selects_by_price(self):
        self.assertEqual(report.matching({"pen": 2.0, "book": 12.5}, "price < 10"), ["pen"])
