"""Forms of the catalogue's admin: JSON readable and checked, the runner chosen from the available ones."""

from __future__ import annotations

from functools import partial
from typing import Any

from django import forms
from django.forms.models import InlineForeignKeyField
from django.forms.widgets import Media, Script
from django.utils.translation import gettext
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from audit.actions import actor
from catalog.admin.editor.runner_forms import kind_name
from catalog.models import ApprovalRule, Grant, Limit, Prompt, Resource, Tool
from catalog.models.fields import JSONFormField, NamesFormField
from catalog.policy import messages
from catalog.runners import registry
from catalog.trials.decisions import differ


class JSONWidget(UnfoldAdminTextareaWidget):  # type: ignore[misc]
    def __init__(self, rows: int = 8) -> None:
        super().__init__(attrs={"rows": rows, "style": "font-family: monospace", "spellcheck": "false"})


class CatalogueForm(forms.ModelForm):  # type: ignore[type-arg]
    """A form with JSON fields in monospace, as high as their content; empty optional ones take their default."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, field in self.fields.items():
            if isinstance(field, NamesFormField):
                field.widget = UnfoldAdminTextInputWidget(attrs={"spellcheck": "false"})
            elif isinstance(field, JSONFormField):
                value = self.initial.get(name, field.initial)
                text = field.prepare_value(value() if callable(value) else value)
                field.widget = JSONWidget(min(24, max(3, str(text or "").count("\n") + 2)))

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        # On the page of a new tool or user, grants are checked before the row has a primary key.
        inside = [name for name, field in self.fields.items() if isinstance(field, InlineForeignKeyField)]
        self.instance.inside = inside[0] if inside else None
        for name, field in self.fields.items():
            if isinstance(field, JSONFormField) and name in self.cleaned_data and self.cleaned_data[name] is None:
                model_field: Any = self._meta.model._meta.get_field(name)
                if not model_field.null:
                    self.cleaned_data[name] = model_field.get_default()
        return cleaned


class ToolForm(CatalogueForm):
    class Meta:
        model = Tool
        fields = "__all__"  # noqa: DJ007 - the admin's fieldsets name them

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "runner" in self.fields:
            choices = [(kind, kind_name(kind)) for kind in registry.runners()]
            present = self.initial.get("runner")
            if present and present not in dict(choices):
                choices.append((present, gettext("%(runner)s (not installed)") % {"runner": present}))
            self.fields["runner"].widget = UnfoldAdminSelectWidget(choices=choices)
        if "description" in self.fields:
            self.fields["description"].widget.attrs["rows"] = 4
        if "output_schema" in self.fields:
            self.fields["output_schema"].widget.attrs["data-optional"] = "yes"  # for the editor's script
        if "cost_argument" in self.fields:
            self.fields["cost_argument"].widget.attrs["spellcheck"] = "false"


class ResourceForm(CatalogueForm):
    class Meta:
        model = Resource
        fields = "__all__"  # noqa: DJ007 - the admin's fieldsets name them

    def clean_text(self) -> str | None:
        return self.cleaned_data["text"] or None

    def clean_blob(self) -> str | None:
        value = self.cleaned_data["blob"]
        return "".join(value.split()) if value else None


class PromptForm(CatalogueForm):
    class Meta:
        model = Prompt
        fields = "__all__"  # noqa: DJ007 - the admin's fieldsets name them


class TrialForm(forms.ModelForm):  # type: ignore[type-arg]
    """The fields of a trial, on the form of a new rule alone: what is tried in whose place is fixed from then on."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "replaces" in self.fields:
            self.fields["replaces"].widget = forms.HiddenInput()
            self.fields["replaces"].label = ""
            self.fields["replaces"].help_text = ""
            if self["replaces"].value() and "trial" in self.fields:
                self.fields["trial"].widget = forms.HiddenInput()
                self.fields["trial"].label = ""
                self.fields["trial"].help_text = ""

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        if self.errors.get("replaces"):
            # No field for this error is on the page.
            del self.errors["replaces"]
            self.add_error(None, gettext("The rule whose change you try was deleted. Add a rule in trial."))
        return cleaned


class RuleForm(TrialForm, CatalogueForm):
    """The form of a grant or a limit, which has its name in the language of the page where it is one of several."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # The theme asks the row for it, but rows do not know languages.
        vars(self.instance)["get_inline_title"] = partial(messages.name_row, self.instance)


CHANGES_RULES = "catalog.change_approvalrule"


def may_skip_approval() -> bool:
    """Return whether whoever is signed in may make, and change, grants whose calls run without approval."""
    user = actor.current_user()
    return user is not None and user.has_perm(CHANGES_RULES)


class GrantForm(RuleForm):
    """The form of a grant. One whose calls run without approval is as good as a change of the approval rules."""

    class Meta:
        model = Grant
        fields = "__all__"  # noqa: DJ007 - the admin's fieldsets name them
        field_classes = {"environments": NamesFormField, "flags": NamesFormField}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "skips_approval" in self.fields and not may_skip_approval():
            self.fields["skips_approval"].disabled = True

    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]
        if may_skip_approval():
            return
        # What is stored counts, not what the form began with: that can be an older version.
        stored = Grant.everything.filter(pk=self.instance.pk).first()
        skips = self.instance.skips_approval or (stored is not None and stored.skips_approval)
        if skips and (stored is None or differ(stored, self.instance)):
            self.add_error(
                None,
                gettext("Calls of this grant run without approval. Who may change approval rules can change it."),
            )


class ApprovalRuleForm(TrialForm, CatalogueForm):
    class Meta:
        model = ApprovalRule
        fields = "__all__"  # noqa: DJ007 - the admin's fieldsets name them


class LimitForm(RuleForm):
    """The form of a limit. Its script shows only the fields that fit the chosen measure; without it, all are shown."""

    class Meta:
        model = Limit
        fields = "__all__"  # noqa: DJ007 - the admin's fieldsets name them

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "measure" in self.fields:
            self.fields["measure"].widget.attrs["data-limit-measure"] = "yes"  # for the script
        if "rate" in self.fields:
            self.fields["rate"].widget.attrs |= {"placeholder": "30/m", "autocomplete": "off", "spellcheck": "false"}
        if "zone" in self.fields:
            self.fields["zone"].widget.attrs |= {"placeholder": "UTC", "spellcheck": "false"}

    @property
    def media(self) -> Media:
        found: Media = super().media
        return found + Media(js=[Script("catalog/limit_form.js", type="module")])  # type: ignore[list-item]


class UserLimitForm(LimitForm):
    """The limit form on the page of a user: the limit applies to this user alone."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.instance.scope = Limit.Scope.USER


class GroupLimitForm(LimitForm):
    """The limit form on the page of a group: the limit applies to each of its members, or to all of them together."""

    SCOPES = (Limit.Scope.EACH_MEMBER, Limit.Scope.GROUP_TOGETHER)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.scope not in self.SCOPES:
            self.instance.scope = Limit.Scope.EACH_MEMBER
        if "scope" in self.fields:
            choices = [(scope.value, scope.label) for scope in self.SCOPES]
            field: Any = self.fields["scope"]
            field.choices = choices
            self.initial["scope"] = self.instance.scope
