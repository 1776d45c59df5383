"""What the hub tells about itself while it runs."""
