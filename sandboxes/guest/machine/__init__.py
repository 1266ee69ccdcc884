"""What runs on a machine of a provider, and keeps boxes there."""
