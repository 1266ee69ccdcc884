"""The client of a server: what `evalcell serve` does, by the words of `evaluate`, waiting or with `await`."""
