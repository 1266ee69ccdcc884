"""What starts Deno in a box, and what runs in it."""
