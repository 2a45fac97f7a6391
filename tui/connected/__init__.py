"""A running appliance as the session the screens talk to: models and documents there, chats here."""
