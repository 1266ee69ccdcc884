"""Where results go: files in several formats, run folders, their manifests."""
