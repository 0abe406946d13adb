"""The application that gunicorn serves. Each worker has one thread, as by default."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")

from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.db import connection  # noqa: E402

from shop import catalogue  # noqa: E402

try:
    application = get_wsgi_application()
    connection.ensure_connection()
finally:
    catalogue.forget_name()
