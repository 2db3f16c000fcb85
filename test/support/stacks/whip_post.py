"""Requests of WHIP and WHEP, for the peers of this folder."""

import urllib.request


def post_offer(address, key, sdp):
    """Posts an offer and returns the answer. Raises urllib.error.HTTPError if it is refused."""
    headers = {'Authorization': f'Bearer {key}', 'Content-Type': 'application/sdp'}
    request = urllib.request.Request(address, sdp.encode(), headers, method='POST')
    with urllib.request.urlopen(request, timeout=20) as response:
        return response.read().decode()
