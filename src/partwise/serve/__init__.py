"""A fitted model as a service: JSON over HTTP, with batching, limits, metrics and live reload.

`create_app` makes the ASGI application, ``partwise serve`` runs it. Needs the extra ``serve``.

=================  ==============================================================================
`settings`         what the operator chooses: model files, token, limits
`shelf`            the loaded models; a replaced file is loaded again, a damaged one is not
`records`          JSON records in the user's columns and units to numbers of a model, and back
`tables`           what can be asked of a model of rows
`ratings`          what can be asked of a recommender
`batching`         concurrent questions share one pass over their rows
`guard`            limits on size, time and concurrency, the token, logs and metrics
`app`              the routes
=================  ==============================================================================
"""

from partwise.serve.app import create_app
from partwise.serve.settings import Limits, Settings

__all__ = ["Limits", "Settings", "create_app"]
