"""Packages of npm for TypeScript: Deno resolves and fetches them, esbuild makes one module of what a script imports."""
