"""Conversations that survive a crash, short-term policies, long-term facts, and forgetting."""
