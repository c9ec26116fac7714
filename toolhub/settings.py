"""The only settings file; every value for operators comes from a TOOLHUB_* variable (README has the table)."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import gettext_lazy as _

from toolhub import env

BASE_DIR = Path(__file__).resolve().parent.parent

# --- environment and address ---------------------------------------------------------------------------------------
ENVIRONMENT = env.text("TOOLHUB_ENVIRONMENT", "development")
DEVELOPMENT = ENVIRONMENT == "development"
FLAGS = env.flags("TOOLHUB_FLAGS")
"""Percentages of the users for whom flags are on, by name: they override those of the admin."""
DEBUG = env.boolean("TOOLHUB_DEBUG", False)
DATA_DIR = Path(env.text("TOOLHUB_DATA_DIR", str(BASE_DIR / ".data"))).absolute()
PUBLIC_URL = env.url("TOOLHUB_PUBLIC_URL", "http://localhost:8000")
CONTACT_NAME = env.line("TOOLHUB_CONTACT_NAME", 100)
CONTACT_URL = env.contact_address("TOOLHUB_CONTACT_URL")
"""The person or team to ask for help, and their address: see `toolhub.contact`."""
WORKSPACE_DIR = Path(env.text("TOOLHUB_WORKSPACE_DIR", str(DATA_DIR / "workspace"))).absolute()

# --- keys ----------------------------------------------------------------------------------------------------------
KEYLESS = env.boolean(env.KEYLESS, False)
"""Whether this is the process of an isolated function, which has none of these keys."""
SECRET_KEY = env.secret("TOOLHUB_SECRET_KEY")
RECORD_KEY = env.secret("TOOLHUB_RECORD_KEY")
_old_keys = env.secret("TOOLHUB_RECORD_OLD_KEYS").replace(",", "\n").splitlines()
RECORD_OLD_KEYS = [key.strip() for key in _old_keys if key.strip()]
"""Earlier values of RECORD_KEY, newest first, or their public keys: what they signed can still be verified."""
ENCRYPTION_KEYS = env.secret("TOOLHUB_ENCRYPTION_KEYS").replace(",", " ").split()
"""The first key encrypts the secrets of tools; every key can decrypt them."""
if KEYLESS:
    SECRET_KEY = env.text_key()
elif DEVELOPMENT:
    ENCRYPTION_KEYS = ENCRYPTION_KEYS or [env.generated_secret(DATA_DIR / "encryption-key", env.fernet_key)]
    SECRET_KEY = SECRET_KEY or env.generated_secret(DATA_DIR / "secret-key")
    RECORD_KEY = RECORD_KEY or env.generated_secret(DATA_DIR / "record-key")
elif not SECRET_KEY:
    raise ImproperlyConfigured(
        "TOOLHUB_SECRET_KEY (or TOOLHUB_SECRET_KEY_FILE) must be set when TOOLHUB_ENVIRONMENT is not 'development'. "
        "For example: python3 -c 'import secrets; print(secrets.token_urlsafe(50))'"
    )

# --- hosts ---------------------------------------------------------------------------------------------------------
_public = urlsplit(PUBLIC_URL)
_local = ("localhost", "127.0.0.1", "[::1]") if DEVELOPMENT else ()
ALLOWED_HOSTS = [*dict.fromkeys([*env.words("TOOLHUB_ALLOWED_HOSTS"), _public.hostname or "", *_local])]
"""Hosts that a request may name; on /mcp and /ws/mcp the list applies to Host and, when sent, to Origin."""
ALLOWED_ORIGINS = [origin.rstrip("/").lower() for origin in env.words("TOOLHUB_ALLOWED_ORIGINS")]
"""Origins of other hosts' web pages that may reach /mcp and /ws/mcp from a browser, as scheme://host[:port]."""
CSRF_TRUSTED_ORIGINS = [PUBLIC_URL]
CSRF_FAILURE_VIEW = "toolhub.access.ended_sessions.csrf_failure"
_https = _public.scheme == "https"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = _https
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_NAME, CSRF_COOKIE_NAME = "toolhub_session", "toolhub_csrf"
SECURE_HSTS_SECONDS = 31_536_000 if _https else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = False
SECURE_REFERRER_POLICY = "same-origin"
TRUSTED_PROXIES = env.networks("TOOLHUB_TRUSTED_PROXIES")
"""Networks of the reverse proxies whose X-Forwarded-* headers are believed; `toolhub.routing` applies them.

Django's SECURE_PROXY_SSL_HEADER and USE_X_FORWARDED_HOST stay off: they would believe anybody.
"""
X_FRAME_OPTIONS = "DENY"
# TLS ends in front of Daphne, where the redirect belongs; preloading a domain is its owner's decision.
SILENCED_SYSTEM_CHECKS = [
    "security.W005",
    "security.W008",
    "security.W021",
    "django_ratelimit.E003",
    "django_ratelimit.W001",
    # Redirects to plain http go to the own computer only: `toolhub.oauth.redirects`.
    "oauth2_provider.W008",
]

# --- applications --------------------------------------------------------------------------------------------------
INSTALLED_APPS = [
    "daphne",
    "unfold.apps.BasicAppConfig",
    "unfold.contrib.filters",
    "unfold.contrib.forms",
    "unfold.contrib.simple_history",
    "toolhub.admin_site.Config",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "simple_history",
    "channels",
    "oauth2_provider",
    "allauth",
    "allauth.account",
    "allauth.socialaccount",
    "allauth.mfa",
    "toolhub.apps.ToolhubConfig",
    "toolhub.access.apps.AccessConfig",
    "toolhub.oauth.apps.OAuthConfig",
    "toolhub.identity.apps.IdentityConfig",
    "toolhub.scim.apps.ScimConfig",
    "toolhub.pages.apps.PagesConfig",
    "toolhub.people.apps.PeopleConfig",
    "catalog.apps.CatalogConfig",
    "audit.apps.AuditConfig",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "toolhub.access.middleware.ContentSecurityPolicy",
    "toolhub.access.middleware.SignInProtection",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "toolhub.access.preferences.Preferences",
    "toolhub.access.ended_sessions.EndedSessions",
    "audit.actions.actor.ActorMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "toolhub.access.temporary_passwords.OwnPasswordFirst",
    "toolhub.identity.mfa.requirement.SecondFactorFirst",
    "django.contrib.messages.middleware.MessageMiddleware",
    "toolhub.access.middleware.Conflicts",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "simple_history.middleware.HistoryRequestMiddleware",
]
ROOT_URLCONF = "toolhub.urls"
ASGI_APPLICATION = "toolhub.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]
AUTHENTICATION_BACKENDS = ["toolhub.access.backends.Passwords"]
AUTH_PASSWORD_VALIDATORS: list[dict[str, Any]] = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
PASSWORD_RESET_TIMEOUT = 3600
LOGIN_URL = "access:login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "access:login"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("zh-hans", "简体中文")]
"""Only complete translations: a page half in the browser's language is worse than an untranslated one."""
LOCALE_PATHS = [BASE_DIR / "toolhub" / "locale"]
FORMAT_MODULE_PATH = ["toolhub.formats"]
TIME_ZONE = "UTC"
USE_TZ = USE_I18N = True

# --- stores --------------------------------------------------------------------------------------------------------
DATABASES = {"default": env.database("TOOLHUB_DATABASE_URL", DATA_DIR / "toolhub.sqlite3")}
REDIS_URL = env.redis("TOOLHUB_REDIS_URL")
REDIS_SECONDS = env.integer("TOOLHUB_REDIS_TIMEOUT_MS", 500, minimum=50, maximum=60_000) / 1000
"""Maximum seconds to wait for Redis before a request continues without it."""
RECORD_SECONDS = env.integer("TOOLHUB_RECORD_TIMEOUT_MS", 3000, minimum=1000, maximum=60_000) / 1000
"""Maximum seconds that a call waits for its audit log entry before it is denied."""
_redis_timeouts = {"socket_timeout": max(2.0, 2 * REDIS_SECONDS), "socket_connect_timeout": max(1.0, REDIS_SECONDS)}
_redis_cache = {
    "BACKEND": "django.core.cache.backends.redis.RedisCache",
    "LOCATION": REDIS_URL,
    "OPTIONS": _redis_timeouts,
}
_memory_cache = {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "OPTIONS": {"MAX_ENTRIES": 100_000}}
CACHES: dict[str, dict[str, Any]] = {
    name: {**(_redis_cache if REDIS_URL else _memory_cache), "KEY_PREFIX": f"toolhub:{name}"}
    | ({} if REDIS_URL else {"LOCATION": name})
    for name in ("default", "limits")
}
if REDIS_URL:
    CACHES["limits"]["BACKEND"] = "catalog.metering.limit_cache.LimitCache"
CACHES["local"] = {**_memory_cache, "LOCATION": "local"}
"""`local` is always private to this process: limits use it while Redis does not answer."""
RATELIMIT_USE_CACHE = "limits"
CHANNEL_LAYERS: dict[str, dict[str, Any]] = {
    "default": (
        {
            "BACKEND": "toolhub.server.redis_pools.ChannelLayer",
            "CONFIG": {"hosts": [{"address": REDIS_URL, **_redis_timeouts}], "capacity": 10_000, "expiry": 30},
        }
        if REDIS_URL
        else {"BACKEND": "channels.layers.InMemoryChannelLayer", "CONFIG": {"capacity": 10_000}}
    )
}

# --- tools and calls -----------------------------------------------------------------------------------------------
TOOL_MODULES = env.words("TOOLHUB_TOOL_MODULES", ("catalog.examples",))
"""Importable modules with the registered functions that the `python_function` runner may call."""
TOOL_THREADS = env.integer("TOOLHUB_TOOL_THREADS", 32, minimum=1, maximum=1000)
TOOL_PROCESSES = env.integer("TOOLHUB_TOOL_PROCESSES", 16, minimum=1, maximum=1000)
STORED_RESULTS_USER_BYTES = env.integer("TOOLHUB_STORED_RESULTS_USER_MB", 256, maximum=1_000_000) * 1_000_000
STORED_RESULTS_BYTES = env.integer("TOOLHUB_STORED_RESULTS_MB", 1024, maximum=100_000_000) * 1_000_000
"""Maximum bytes of the results that were too large to send, for each user and in all; the oldest are removed first."""
ISOLATED_ENVIRONMENT = env.variables("TOOLHUB_ISOLATED_ENVIRONMENT", env.words("TOOLHUB_ISOLATED_ENVIRONMENT"))
"""Environment variables that isolated functions get beside those that every program needs."""
RUNNERS = env.words("TOOLHUB_RUNNERS")
"""Importable modules outside of `catalog/runners/` that provide one runner each."""
COMMANDS = env.words("TOOLHUB_COMMANDS")
"""Programs that the `command` runner may start; an empty list turns the runner off."""
SQL_DATABASES = env.named_databases("TOOLHUB_SQL_DATABASES", env.secret("TOOLHUB_SQL_DATABASES"))
"""Databases that the `sql_query` runner may read, by name."""
SAMPLES_FILE = DATA_DIR / "samples.sqlite3"
if DEVELOPMENT:
    SQL_DATABASES = {"samples": f"sqlite:///{SAMPLES_FILE}", **SQL_DATABASES}
WEATHER_URL = env.text("TOOLHUB_WEATHER_URL", "https://api.open-meteo.com/v1/forecast")
GEOCODING_URL = env.text("TOOLHUB_GEOCODING_URL", "https://geocoding-api.open-meteo.com/v1/search")
"""What the example `get_weather` asks: an API in the form of Open-Meteo's."""
(EMAIL_HOST, EMAIL_PORT, EMAIL_HOST_USER, EMAIL_HOST_PASSWORD, EMAIL_USE_TLS, EMAIL_USE_SSL) = env.mail_server(
    "TOOLHUB_SMTP_URL", env.secret("TOOLHUB_SMTP_URL")
)
EMAIL_TIMEOUT = 20
DEFAULT_FROM_EMAIL = env.text("TOOLHUB_EMAIL_FROM", f"toolhub@{urlsplit(PUBLIC_URL).hostname or 'localhost'}")
APPROVAL_WEBHOOK_URL = env.webhook("TOOLHUB_APPROVAL_WEBHOOK_URL", env.secret("TOOLHUB_APPROVAL_WEBHOOK_URL"))
"""Where requests for approval are announced, such as a channel of a chat."""
APPROVAL_WEBHOOK_NETWORKS = env.words("TOOLHUB_APPROVAL_WEBHOOK_NETWORKS")
"""Private networks (CIDR, or CIDR:port) in which that address may be."""
CA_FILE = env.certificates("TOOLHUB_CA_FILE")
"""File with certificates (PEM) of further authorities that outgoing requests trust."""
ALLOW_PRIVATE_NETWORKS = env.words("TOOLHUB_ALLOW_PRIVATE_NETWORKS")
"""Private networks (CIDR, or CIDR:port) that tools may reach."""

# --- limits of clients ---------------------------------------------------------------------------------------------
MAX_BODY_BYTES = env.integer("TOOLHUB_MAX_BODY_BYTES", 4_194_304, minimum=1024, maximum=268_435_456)
"""Maximum bytes of a request or of a WebSocket message."""
BAD_TOKENS_RATE = env.rate("TOOLHUB_BAD_TOKENS_RATE", "60/m")
"""Rate of requests with an invalid token per address; above it, the answer to an invalid one is 429."""
MAX_UPLOAD_BYTES = env.integer("TOOLHUB_MAX_UPLOADS_MB", 64, minimum=1, maximum=100_000) * 1_000_000
"""Maximum bytes of larger bodies that a process holds at one time, at /mcp and on pages each; one sender gets half."""
MAX_UNREAD_BYTES = env.integer("TOOLHUB_MAX_UNREAD_MB", 64, minimum=1, maximum=100_000) * 1_000_000
"""Maximum bytes of large answers that a process holds for slow readers; those at one address get half."""
MAX_CONNECTIONS = env.integer("TOOLHUB_MAX_CONNECTIONS", 0, maximum=1_000_000)
"""Maximum connections of a process; 0: as many as its descriptors allow, at most 10,000."""
MAX_CONNECTIONS_PER_ADDRESS = env.integer("TOOLHUB_MAX_CONNECTIONS_PER_ADDRESS", 256, minimum=1, maximum=1_000_000)
"""Maximum connections of one address to a process; behind a trusted proxy, requests and WebSockets in progress."""
CONNECTIONS_RATE = env.rate("TOOLHUB_CONNECTIONS_RATE", "100/s")
"""Rate of new connections of one address to a process; the requests of others wait."""
HEADER_SECONDS = env.integer("TOOLHUB_HEADER_SECONDS", 15, minimum=1, maximum=3600)
"""Maximum seconds for the headers of a request, and the period over which the rate of its body is measured."""
WEBSOCKET_HEADER_SECONDS = env.integer("TOOLHUB_WEBSOCKET_HEADER_SECONDS", 5, minimum=1, maximum=3600)
"""Maximum seconds for the handshake of a WebSocket, unless HEADER_SECONDS is shorter."""
KEEPALIVE_SECONDS = env.integer("TOOLHUB_KEEPALIVE_SECONDS", 75, minimum=1, maximum=86_400)
"""Seconds that an idle connection is kept for a next request."""
MIN_BYTES_PER_SECOND = env.integer("TOOLHUB_MIN_BYTES_PER_SECOND", 1000, minimum=1, maximum=1_000_000)
"""Minimum rate of a body, over HEADER_SECONDS each, and of reading an answer, over SLOW_READER_SECONDS each."""
SLOW_READER_SECONDS = env.integer("TOOLHUB_SLOW_READER_SECONDS", 60, minimum=1, maximum=3600)
"""The period over which the rate of a reader is measured."""
MAX_QUEUED_BYTES = env.integer("TOOLHUB_MAX_QUEUED_KB", 1024, minimum=16, maximum=1_000_000) * 1024
"""Maximum bytes of messages that wait for the reader of one stream; eight times that of a WebSocket, which has many."""
REQUESTS_RATE = env.rate("TOOLHUB_REQUESTS_RATE", "6000/m")
"""Rate of requests of one user that are not calls: lists, completion, questions about tasks; above it, status 429."""
MAX_CALLS_PER_USER = env.integer("TOOLHUB_MAX_CALLS_PER_USER", 64, minimum=1, maximum=100_000)
"""Maximum running calls of one user in a process, so that one person cannot block the others."""
MAX_REQUESTS_PER_SESSION = env.integer("TOOLHUB_MAX_REQUESTS_PER_SESSION", 100, minimum=1, maximum=100_000)
"""Maximum requests in progress of one session or WebSocket in a process."""
MAX_STREAMS_PER_USER = env.integer("TOOLHUB_MAX_STREAMS_PER_USER", 100, minimum=1, maximum=100_000)
"""Maximum open streams and WebSockets of one user in a process."""
WEBSOCKET_FRAMES_RATE = env.rate("TOOLHUB_WEBSOCKET_FRAMES_RATE", "2000/s")
"""Rate of WebSocket frames of one user; a faster sender has to wait."""
WEBSOCKET_PINGS_RATE = env.rate("TOOLHUB_WEBSOCKET_PINGS_RATE", "10/s")
"""Rate of pings and pongs of one WebSocket; a faster sender is disconnected."""
MAX_PAGES = env.integer("TOOLHUB_MAX_PAGES", 32, minimum=1, maximum=1000)
"""Maximum requests of pages that a process works on at one time; each needs a thread."""
MAX_PAGES_PER_ADDRESS = env.integer("TOOLHUB_MAX_PAGES_PER_ADDRESS", 6, minimum=1, maximum=1000)
"""The same for one address."""
SESSION_IDLE_SECONDS = env.integer("TOOLHUB_SESSION_IDLE_SECONDS", 28_800, minimum=60)
"""Seconds without a request after which a stateful session ends."""
STOP_SECONDS = env.integer("TOOLHUB_STOP_SECONDS", 25, minimum=1, maximum=300)
"""Maximum seconds that a stopping server lets running calls finish before it cancels them."""

# --- clients that sign in with OAuth -------------------------------------------------------------------------------
CLIENT_REGISTRATION = env.choice("TOOLHUB_CLIENT_REGISTRATION", ("anyone", "listed", "nobody"))
"""Who may register a client: anyone, those at CLIENT_HOSTS, or nobody; clients that are known stay."""
CLIENT_HOSTS = [host.lower() for host in env.words("TOOLHUB_CLIENT_HOSTS")]
"""Hosts of client documents and of redirect addresses that may register when CLIENT_REGISTRATION is "listed"."""
CLIENT_DOCUMENTS = env.boolean("TOOLHUB_CLIENT_DOCUMENTS", True)
"""Whether clients may introduce themselves with a document at their own address; without, they register."""
CLIENT_SCHEMES = env.schemes(
    "TOOLHUB_CLIENT_SCHEMES", ("cursor", "vscode", "vscode-insiders", "windsurf", "zed", "kiro", "lmstudio", "goose")
)
"""Schemes of applications, beside https and http to the own computer, that an answer may be sent to."""
CLIENT_NETWORKS = env.words("TOOLHUB_CLIENT_NETWORKS")
"""Private networks (CIDR, or CIDR:port) from which client documents may be fetched."""
WRITE_SCOPE = env.boolean("TOOLHUB_WRITE_SCOPE", False)
"""Whether apps need the scope mcp:write for tools that are not read-only."""
REGISTRATIONS_RATE = env.rate("TOOLHUB_REGISTRATIONS_RATE", "60/h")
"""Rate of client registrations of one address."""
OAUTH2_PROVIDER_APPLICATION_MODEL = "oauth.Client"
OAUTH2_PROVIDER: dict[str, Any] = {
    "OAUTH2_SERVER_CLASS": "toolhub.oauth.server.AuthorizationServer",
    "OAUTH2_VALIDATOR_CLASS": "toolhub.oauth.validator.Validator",
    "SCOPES_BACKEND_CLASS": "toolhub.oauth.scopes.Scopes",
    "ACCESS_TOKEN_GENERATOR": "toolhub.oauth.tokens.new_access_token",
    "REFRESH_TOKEN_GENERATOR": "toolhub.oauth.tokens.new_refresh_token",
    "OIDC_ISS_ENDPOINT": PUBLIC_URL,
    "AUTHORIZATION_CODE_EXPIRE_SECONDS": 60,
    "REFRESH_TOKEN_REUSE_PROTECTION": True,
    "ALLOW_LOCALHOST_LOOPBACK": True,
    "ALLOWED_REDIRECT_URI_SCHEMES": ["http", "https", *CLIENT_SCHEMES],
    "CIMD_ENABLED": True,
    "CIMD_METADATA_FETCHER": "toolhub.oauth.client_documents.Fetcher",
    "CIMD_REGISTRATION_PERMISSION_CLASSES": ["toolhub.oauth.client_documents.Permission"],
    **{
        f"COMPLIANT_BCP_RFC9700_{name}": True
        for name in (
            "IMPLICIT_GRANT",
            "PASSWORD_GRANT",
            "PKCE_METHOD",
            "ACCESS_TOKEN_TRANSPORT",
            "AUTHZ_RESPONSE_ISS",
            "TOKEN_STORAGE",
            "REFRESH_TOKEN",
            "REDIRECT_URI_MATCHING",
            "PKCE_REQUIRED",
        )
    },
}
"""Settings of django-oauth-toolkit, which only `toolhub.oauth` imports."""

# --- people who sign in with an identity provider, a passkey or a code -----------------------------------------------
LOCAL_PASSWORDS = env.boolean("TOOLHUB_LOCAL_PASSWORDS", True)
"""Whether people may sign in with a password of this server. Superusers always may: somebody must be able to."""
SIGN_IN_NETWORKS = env.words("TOOLHUB_SIGN_IN_NETWORKS")
"""Private networks (CIDR, or CIDR:port) in which identity providers may be reached."""
OIDC_ISSUER = env.issuer("TOOLHUB_OIDC_ISSUER")
"""An OpenID Connect provider configured in the environment; more are configured in the admin."""
OIDC_NAME = env.text("TOOLHUB_OIDC_NAME", "Single sign-on")
OIDC_CLIENT_ID = env.text("TOOLHUB_OIDC_CLIENT_ID")
OIDC_CLIENT_SECRET = env.secret("TOOLHUB_OIDC_CLIENT_SECRET")
OIDC_SCOPES = env.text("TOOLHUB_OIDC_SCOPES", "openid profile email")
OIDC_GROUPS_CLAIM = env.text("TOOLHUB_OIDC_GROUPS_CLAIM", "groups")
OIDC_SUBJECT_CLAIM = env.text("TOOLHUB_OIDC_SUBJECT_CLAIM", "sub")
PROVISIONING_RATE = env.rate("TOOLHUB_PROVISIONING_RATE", "1500/m")
"""Rate of requests with one provisioning token (SCIM); above it, status 429."""
SOCIALACCOUNT_ADAPTER = "toolhub.identity.adapter.Adapter"
SOCIALACCOUNT_STORE_TOKENS = False
SOCIALACCOUNT_QUERY_EMAIL = False
ACCOUNT_EMAIL_VERIFICATION = "none"
MFA_ADAPTER = "toolhub.identity.mfa_adapter.Adapter"
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_TOTP_TOLERANCE = 1
"""Time steps (of 30 s) that the clock of an authenticator app may be off, either way."""
MFA_RECOVERY_CODE_DIGITS = 10
REQUIRE_SECOND_FACTOR = env.choice("TOOLHUB_REQUIRE_SECOND_FACTOR", ("nobody", "staff", "everyone"))
"""Who has to add a second factor when they sign in with a password of this server."""
"""Settings of django-allauth, which only `toolhub.identity` imports."""

# --- the audit log -------------------------------------------------------------------------------------------------
MIN_FREE_MB = env.integer("TOOLHUB_MIN_FREE_MB", 200)
CHECKPOINT_SECONDS = env.integer("TOOLHUB_CHECKPOINT_SECONDS", 300, minimum=1)
CHECKPOINT_FILE = env.text("TOOLHUB_CHECKPOINT_FILE")
VERIFY_SECONDS = env.integer("TOOLHUB_VERIFY_SECONDS", 86_400)
KEEP_BODIES_DAYS = env.integer("TOOLHUB_KEEP_BODIES_DAYS", 0)
KEEP_CALLS_DAYS = env.integer("TOOLHUB_KEEP_CALLS_DAYS", 0)
KEEP_WHOLE_BODIES_BYTES = env.integer("TOOLHUB_KEEP_WHOLE_BODIES_MB", 0, maximum=32) * 1_000_000
"""Maximum bytes of a result that is kept whole beside its call; 0: the log keeps the beginning of long results only."""
MAX_WHOLE_BODIES_BYTES = env.integer("TOOLHUB_MAX_WHOLE_BODIES_MB", 10_000, minimum=1) * 1_000_000
"""Maximum bytes that all whole results take together, compressed; then the log keeps the beginning of further ones."""
CALL_LOG = env.text("TOOLHUB_CALL_LOG")
REDACT_NAMES = env.words("TOOLHUB_REDACT_NAMES")
REDACT_VALUES = env.secret("TOOLHUB_REDACT_VALUES").splitlines()

# --- the admin's theme ---------------------------------------------------------------------------------------------
UNFOLD: dict[str, Any] = {
    "SITE_TITLE": "toolhub",
    "SITE_HEADER": "toolhub",
    "SITE_SUBHEADER": _("MCP tool gateway with a full audit log"),
    "SITE_SYMBOL": "hub",
    "SITE_URL": "/",
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": "toolhub.access.navigation.favicon"}],
    "STYLES": ["toolhub.access.navigation.styles", "toolhub.access.navigation.notice_styles"],
    "SCRIPTS": [
        "toolhub.access.navigation.labels",
        "toolhub.access.navigation.notices",
        "toolhub.access.navigation.search",
        "toolhub.access.navigation.keyboard",
        "toolhub.access.navigation.zone",
    ],
    "SHOW_HISTORY": True,
    "SHOW_VIEW_ON_SITE": False,
    "ENVIRONMENT": "toolhub.access.navigation.environment",
    "DASHBOARD_CALLBACK": "toolhub.pages.home.dashboard",
    "BORDER_RADIUS": "8px",
    "SIDEBAR": {
        "show_search": True,
        "command_search": True,
        "show_all_applications": False,
        "navigation": "toolhub.access.navigation.sidebar",
    },
    "COLORS": {
        "primary": {
            "50": "oklch(98.4% .014 180.7)",
            "100": "oklch(95.3% .051 180.8)",
            "200": "oklch(91% .096 180.4)",
            "300": "oklch(85.5% .138 181.1)",
            "400": "oklch(77.7% .152 181.9)",
            "500": "oklch(60% .118 184.7)",
            "600": "oklch(51.1% .096 186.4)",
            "700": "oklch(43.7% .078 188.2)",
            "800": "oklch(38.6% .063 188.4)",
            "900": "oklch(33% .055 188.4)",
            "950": "oklch(27.7% .046 192.5)",
        }
    },
}

# --- static files and logs -----------------------------------------------------------------------------------------
STATIC_URL = "static/"
# No STATIC_ROOT: files are served from the applications' directories, so nothing has to be collected.
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
WHITENOISE_USE_FINDERS = True
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {
            "()": "toolhub.log_lines.LineFormatter",
            "format": "{asctime} {levelname} {name}: {message}",
            "style": "{",
        }
    },
    "filters": {
        "expected": {"()": "toolhub.log_lines.ExpectedErrors"},
        "secrets": {"()": "audit.redaction.redactor.LogFilter"},
    },
    "handlers": {
        "console": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["expected", "secrets"]}
    },
    "root": {"handlers": ["console"], "level": env.text("TOOLHUB_LOG_LEVEL", "INFO").upper()},
    "loggers": {
        "django.server": {"handlers": ["console"], "propagate": False},
        "daphne.server": {"level": "WARNING"},
        "daphne.http_protocol": {"level": "WARNING"},
        "daphne.ws_protocol": {"level": "WARNING"},
        "oauth2_provider": {"level": "WARNING"},
        "oauthlib": {"level": "WARNING"},
        "httpx2": {"level": "WARNING"},
        "httpcore2": {"level": "WARNING"},
    },
}
