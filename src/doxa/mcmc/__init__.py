"""Engines: the driver that runs every sampler, and the theory of finite chains that tests them."""
