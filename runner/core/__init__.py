"""The vocabulary of all rooms: types, errors, texts, tracing."""
