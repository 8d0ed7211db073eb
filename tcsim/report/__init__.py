"""Reports of profiles: text, JSON, CSV."""
