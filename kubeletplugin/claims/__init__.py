"""Prepares and unprepares claims, and finishes or undoes what a crash left."""
