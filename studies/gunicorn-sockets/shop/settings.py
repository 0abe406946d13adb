"""Settings of the shop, as a production site would have them, without what varies or writes."""

from pathlib import Path

from shop import catalogue

DEBUG = False
ALLOWED_HOSTS = ["*"]
# It signs nothing here: there are no sessions, no forms and no cookies.
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
        # One connection for a worker's whole life: its file has no name any more.
        "CONN_MAX_AGE": None,
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"

# Bytes must not depend on the machine's language or clock.
LANGUAGE_CODE = "en"
USE_I18N = False
USE_TZ = True
TIME_ZONE = "UTC"
