"""What runs on a provider's machine, and keeps boxes there."""
