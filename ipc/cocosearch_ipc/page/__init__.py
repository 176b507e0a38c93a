"""The status page: plain HTML, CSS and JavaScript as they are sent, and which of them there are
(`site`).

No build step and nothing from elsewhere. It asks the daemon with the token of its URL's fragment,
which no browser sends.
"""
