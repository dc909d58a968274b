import pathlib
import tempfile
import unittest

import stock


class ReadStock(unittest.TestCase):
    def test_reads_one_item_per_line(self):
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory, "stock.txt")
            path.write_text("pen 2\nbook 12.5\n")
            self.assertEqual(stock.read_stock(path), {"pen": 2.0, "book": 12.5})
