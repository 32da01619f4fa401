"""What people read: tables, timelines."""
