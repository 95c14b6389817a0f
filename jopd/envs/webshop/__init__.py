"""WebShop: searching and buying in a text shop, natively in Python."""
