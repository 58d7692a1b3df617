"""What the scripts on the slides of Antal & Sárközy need."""
