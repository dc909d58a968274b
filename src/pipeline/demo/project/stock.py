"""Reads what the shop has in stock."""


def read_stock(path):
    """Return the price of each item in a file with one name and price per line."""
    return dict(_item(line) for line in open(path))


def _item(line):
    name, price = line.split()
    return name, float(price)
