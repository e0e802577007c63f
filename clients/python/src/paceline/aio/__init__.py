"""For code that awaits: the same names as in `paceline`."""

from paceline.aio.limiter import Call, Limiter, Slot
from paceline.transports import aiohttp
from paceline.transports import async_httpx as httpx

__all__ = ["Call", "Limiter", "Slot", "aiohttp", "httpx"]
