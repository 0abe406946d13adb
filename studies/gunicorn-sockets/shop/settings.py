"""Settings of the shop: those of a production site, without anything that varies or writes."""

from pathlib import Path

from shop import catalogue

DEBUG = False
ALLOWED_HOSTS = ["*"]
# Signs nothing, since there are no sessions, forms or cookies.
SECRET_KEY = "not secret: this site keeps no secrets"

ROOT_URLCONF = "shop.urls"
WSGI_APPLICATION = "shop.wsgi.application"
INSTALLED_APPS = ["shop"]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [Path(__file__).parent / "templates"],
    }
]

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": f"file:{catalogue.path()}?mode=ro",
        "OPTIONS": {"uri": True},
        # One connection per worker, never closed, since the database file is deleted.
        "CONN_MAX_AGE": None,
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"

# The bytes must not depend on the machine's language or clock.
LANGUAGE_CODE = "en"
USE_I18N = False
USE_TZ = True
TIME_ZONE = "UTC"
