"""The web: addresses that may be reached, pages as text, search engines."""
