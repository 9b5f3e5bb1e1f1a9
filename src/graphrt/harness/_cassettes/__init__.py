"""What cassettes are made of: requests made canonical, recordings, their file, and what a miss shows."""
