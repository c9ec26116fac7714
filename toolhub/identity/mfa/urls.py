from __future__ import annotations

from django.urls import path

from toolhub.identity.mfa import security_pages, sign_in_pages

app_name = "mfa"
urlpatterns = [
    path("sign-in/second-step/", sign_in_pages.second, name="second-step"),
    path("sign-in/second-step/options/", sign_in_pages.second_options, name="second-options"),
    path("sign-in/passkey/", sign_in_pages.PasskeySignIn.as_view(), name="passkey"),
    path("sign-in/passkey/options/", sign_in_pages.passkey_options, name="passkey-options"),
    path("account/security/", security_pages.security, name="security"),
    path("account/security/confirm/", security_pages.confirm, name="confirm"),
    path("account/security/confirm/options/", security_pages.confirm_options, name="confirm-options"),
    path("account/security/app/", security_pages.set_up_app, name="app"),
    path("account/security/app/remove/", security_pages.remove_app, name="app-remove"),
    path("account/security/passkeys/add/", security_pages.add_passkey, name="add"),
    path("account/security/passkeys/add/options/", security_pages.add_options, name="add-options"),
    path("account/security/passkeys/<int:pk>/rename/", security_pages.rename_passkey, name="rename"),
    path("account/security/passkeys/<int:pk>/remove/", security_pages.remove_passkey, name="remove"),
    path("account/security/recovery-codes/", security_pages.replace_recovery_codes, name="recovery-codes"),
]
