"""An embedded stand-in for GitHub: REST subset, git over HTTP, signed webhooks, and a small page for people.

Used by ``graftsmith demo``, ``graftsmith devhub`` and the tests. No production module may import it.

Read it in this order: ``records`` (what there is), ``store`` (where it is kept), ``hub`` (what ties it together),
``issues``/``pulls``/``checks``/``refs`` (what happens), ``shapes`` (how GitHub spells it), ``routes`` (how it is asked
for), ``server`` (how a request gets there).
"""
