"""Rules about versions, which webhooks, plans and the live check share."""
