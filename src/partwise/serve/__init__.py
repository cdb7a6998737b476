"""A fitted model as a service: JSON over HTTP, with batching, limits, metrics and live reload.

`create_app` makes the ASGI application, ``partwise serve`` runs it. Needs the extra ``serve``.

=================  ==============================================================================
`settings`         the operator's settings: model files, token, limits
`shelf`            the loaded models; a replaced file is loaded again, a damaged one is refused
`records`          conversion between JSON records and the model's numbers
`tables`           questions to a model of rows
`ratings`          questions to a recommender
`batching`         concurrent questions share one pass over their rows
`guard`            limits on size, time and concurrency, the token, logs and metrics
`bodies`           requests and answers, as the OpenAPI page shows them
`app`              the routes
=================  ==============================================================================
"""

from partwise.serve.app import create_app
from partwise.serve.settings import Limits, Settings

__all__ = ["Limits", "Settings", "create_app"]
