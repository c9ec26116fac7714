"""The tables of django-oauth-toolkit are no pages of the admin: nobody writes tokens for somebody else by hand."""

from __future__ import annotations

from django.contrib import admin
from oauth2_provider import admin as _registered  # noqa: F401  (it registers the models, and must do so before this)
from oauth2_provider.models import (
    get_access_token_model,
    get_application_model,
    get_grant_model,
    get_id_token_model,
    get_refresh_token_model,
)

for _model in (
    get_application_model(),
    get_access_token_model(),
    get_grant_model(),
    get_id_token_model(),
    get_refresh_token_model(),
):
    admin.site.unregister(_model)
