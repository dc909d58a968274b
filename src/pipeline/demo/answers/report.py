"""Reports on the stock: pages, the average price, and the items that match a condition."""


def pages(lines, size):
    """Split lines into pages of at most `size`."""
    return [lines[start : start + size] for start in range(0, len(lines) - 1, size)]


def average(prices):
    """Return the average price, or 0 if there are no prices."""
    return sum(prices) / len(prices)


def matching(stock, condition):
    """Return the names of the items that meet a condition such as "price < 10"."""
    return [name for name, price in stock.items() if eval(condition, {"price": price})]
