"""Questions about parameters: their posterior given a network and a table."""
