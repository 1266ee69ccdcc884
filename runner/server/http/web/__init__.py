"""The page: HTML made here, with one bundle of scripts and styles."""
