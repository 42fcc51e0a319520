"""The demo's page for a browser."""
