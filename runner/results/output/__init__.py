"""Write results: files in several formats, run folders, their manifests."""
