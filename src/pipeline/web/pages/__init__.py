"""The pages, one module each. A module is added to the list below; its routes and its place in the header follow.

A module has `ROUTES`, and `NAV` where the header links to it: pairs of a word and the path below the store. A page
takes its feed's position first, then reads its store in a thread (`run_in_threadpool`), and is rendered by `render`.
"""

from starlette.routing import Route

from pipeline.web.pages import acting, events, finding, findings, run, runs, start, stores, triage, visit

# In the order of the header. `finding` comes after `triage`: it takes any name.
MODULES = (stores, events, runs, run, visit, acting, findings, triage, finding, start)

ROUTES: list[Route] = [route for module in MODULES for route in module.ROUTES]
NAV: tuple[tuple[str, str], ...] = tuple(entry for module in MODULES for entry in getattr(module, "NAV", ()))
