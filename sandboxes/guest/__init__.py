"""Everything that runs inside a sandbox: it imports the standard library only, and is shipped as one package."""
