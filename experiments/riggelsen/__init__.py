"""What the scripts about Riggelsen, chapter 4 share: the chains, the claims and the figures."""
