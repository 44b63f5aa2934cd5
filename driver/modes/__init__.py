"""Decides which devices of each GPU are published: by the cluster's layout, by use, and by what pending claims need.

:mod:`driver.modes.rule` chooses the layout for the whole cluster, :mod:`driver.modes.wanted` what a node should
publish under it, and :mod:`driver.modes.transition` the next safe step towards that.
"""
