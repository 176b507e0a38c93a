"""The status page: plain HTML, CSS and JavaScript, and the list of these files (`site`).

There is no build step and nothing from other servers. The page calls the daemon with the token from
its URL's fragment, which browsers never send.
"""
