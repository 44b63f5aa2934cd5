"""Turns a judgement into text, JSON and Events."""
