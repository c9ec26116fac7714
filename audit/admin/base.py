"""Read-only admin pages: rows cannot be added, changed, deleted or selected for actions, and are never counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias, TypeVar, cast
from urllib.parse import urlencode

from django import forms
from django.contrib.admin import ShowFacets
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy
from unfold.contrib.filters.admin import DropdownFilter, TextFilter
from unfold.decorators import display
from unfold.views import ChangeList
from unfold.widgets import UnfoldAdminTextInputWidget

from audit import local_time
from audit.admin_base import ModelAdmin
from audit.queries.search import PAGE_ROWS, Page, page
from toolhub import invisible

CURSORS = ("before", "after")
COLUMN = "column"
"""Parameter of the chosen columns, one value for each; without it, the list has its usual ones."""
LIVE = "live"
"""Parameter of a list that shows changes by itself."""
NAME_HELP = gettext_lazy("Whole name, or part of it with *")
_COLOURS = {
    "success": "bg-green-100 text-green-700 dark:bg-green-500/20 dark:text-green-400",
    "info": "bg-blue-100 text-blue-700 dark:bg-blue-500/20 dark:text-blue-400",
    "warning": "bg-orange-100 text-orange-700 dark:bg-orange-500/20 dark:text-orange-400",
    "danger": "bg-red-100 text-red-700 dark:bg-red-500/20 dark:text-red-400",
}
StrOrPromise: TypeAlias = str | Promise
"""A text, or a lazily translated one."""
Options: TypeAlias = tuple[tuple[str, StrOrPromise], ...]
F = TypeVar("F", bound=Callable[..., Any])


def column(description: StrOrPromise, label: dict[str, str] | None = None) -> Callable[[F], F]:
    """Return a decorator for a list column; with `label`, a colored one whose method returns (key, text)."""
    return cast("Callable[[F], F]", display(description=description, label=label))


def label(tone: str, content: Any) -> SafeString:
    """Return the markup of the theme's label. Rendering its template for every row took a fifth of a page's time."""
    return format_html(
        '<span class="inline-block font-semibold h-6 leading-6 px-2 rounded-default text-[11px] uppercase'
        ' whitespace-nowrap {}">{}</span>',
        _COLOURS.get(tone, ""),
        content,
    )


def title_of(admin: Any, name: str) -> StrOrPromise:
    method = getattr(admin, name, None)
    if method is None:
        return str(capfirst(admin.model._meta.get_field(name).verbose_name))
    title: StrOrPromise = method.short_description
    return title


Line: TypeAlias = tuple[str, list[tuple[StrOrPromise, str]]]
"""URL of a row, and (title, text) of each column."""


def lines(admin: Any, names: Iterable[str], rows: Iterable[Any]) -> Iterator[Line]:
    """Yield the line of each row. This takes a third of the theme's markup, and of its time."""
    columns = [(name, title_of(admin, name), getattr(admin, name, None)) for name in names]
    for row in rows:
        yield (
            row_url(row),
            [
                (title, invisible.show(str(getattr(row, name))) if method is None else method(row))
                for name, title, method in columns
            ],
        )


class KeysetChangeList(ChangeList):  # type: ignore[misc]
    """A list with Newer and Older instead of page numbers, whose rows come from the admin class itself."""

    page: Page
    older_link = newer_link = ""

    def titles(self) -> list[StrOrPromise]:
        return [title_of(self.model_admin, name) for name in self.list_display]

    def lines(self) -> Iterator[Line]:
        return lines(self.model_admin, self.list_display, self.result_list)

    def get_filters_params(self, params: dict[str, Any] | None = None) -> dict[str, Any]:
        wanted: dict[str, Any] = super().get_filters_params(params)
        return {name: value for name, value in wanted.items() if name not in {*CURSORS, COLUMN, LIVE}}

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[Any]:
        self.filter_specs, self.has_filters, rest, _, self.has_active_filters = self.get_filters(request)
        if rest:
            raise IncorrectLookupParameters(f"no such filter: {', '.join(rest)}")
        self.clear_all_filters_qs = self.get_query_string(remove=[*self.get_filters_params(), *CURSORS])
        rows: QuerySet[Any] = self.root_queryset
        return rows

    def get_results(self, request: HttpRequest) -> None:
        try:
            self.page = self.model_admin.page(
                request, before=request.GET.get("before", ""), after=request.GET.get("after", "")
            )
        except ValueError as error:
            raise IncorrectLookupParameters(str(error)) from error
        self.older_link = self.page.older and self.get_query_string({"before": self.page.older}, ["after"])
        self.newer_link = self.page.newer and self.get_query_string({"after": self.page.newer}, ["before"])
        self.result_list = self.page.rows
        self.result_count = len(self.page.rows)
        # Equal counts prevent the theme from presenting the page as the whole result.
        self.full_result_count = self.result_count
        self.show_full_result_count = self.can_show_all = self.multi_page = self.show_admin_actions = False
        self.paginator = Paginator(self.page.rows, PAGE_ROWS)


class ReadOnlyAdmin(ModelAdmin):
    """Base class of the pages of the audit log."""

    actions = None
    list_per_page = PAGE_ROWS
    list_filter_submit = True
    list_fullwidth = True
    sortable_by = ()
    show_full_result_count = False
    show_facets = ShowFacets.NEVER
    change_list_template = "admin/audit/change_list.html"
    has_plain_columns = False
    """Whether every column is a text of this class or of the row: the list then uses the audit log's small table."""
    empty_message: StrOrPromise = gettext_lazy("No entries yet.")

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        return {}

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return KeysetChangeList

    def page(self, request: HttpRequest, *, before: str, after: str) -> Page:
        return page(self.get_queryset(request).order_by(), None, before=before, after=after)

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **options: Any) -> Any:
        return super().render_change_form(request, {**context, "show_history": False}, *args, **options)

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        # The audit log has no other history than itself.
        return redirect(reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_change", args=(object_id,)))


class SearchTextFilter(TextFilter):  # type: ignore[misc]
    """A text filter. The `CallSearch` of the page, not this class, applies it to the rows."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset


class SearchChoiceFilter(DropdownFilter):  # type: ignore[misc]
    options: Options = ()

    def lookups(self, request: HttpRequest, model_admin: Any) -> Options:
        # A value from the URL applies even when it is not among the choices: then it is shown unchanged.
        value = request.GET.get(str(self.parameter_name), "")
        return self.options if not value or value in dict(self.options) else (*self.options, (value, value))

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset


class _TimeForm(forms.Form):
    def __init__(self, name: str, label: StrOrPromise, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        widget = UnfoldAdminTextInputWidget(attrs={"type": "datetime-local"})
        self.fields[name] = forms.CharField(label=str(label), required=False, widget=widget)


class SearchTimeFilter(SearchTextFilter):
    """A time filter in the reader's time zone, also when the URL has a time in UTC."""

    form_class = _TimeForm

    def value(self) -> str:
        return local_time.format_for_input(str(super().value() or ""))


class _NameForm(forms.Form):
    def __init__(self, name: str, label: StrOrPromise, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        widget = UnfoldAdminTextInputWidget(attrs={"placeholder": NAME_HELP, "title": NAME_HELP})
        self.fields[name] = forms.CharField(label=str(label), required=False, widget=widget)


class SearchNameFilter(SearchTextFilter):
    """A filter by a whole name, or by a part of one with `*`."""

    form_class = _NameForm


def name_filter(label: StrOrPromise, parameter: str) -> type[SearchTextFilter]:
    return type(f"{parameter.title()}Filter", (SearchNameFilter,), {"title": label, "parameter_name": parameter})


def text_filter(label: StrOrPromise, parameter: str) -> type[SearchTextFilter]:
    return type(f"{parameter.title()}Filter", (SearchTextFilter,), {"title": label, "parameter_name": parameter})


def choice_filter(label: StrOrPromise, parameter: str, options: Options) -> type[SearchChoiceFilter]:
    members = {"title": label, "parameter_name": parameter, "options": options}
    return type(f"{parameter.title()}Filter", (SearchChoiceFilter,), members)


def time_filter(label: StrOrPromise, parameter: str) -> type[SearchTimeFilter]:
    return type(
        f"{parameter.title()}Filter",
        (SearchTimeFilter,),
        {"title": local_time.add_zone(label), "parameter_name": parameter},
    )


def calls_url(**filters: str) -> str:
    """Return the URL of the list of calls with these filters of a `CallSearch`, without empty ones."""
    query = urlencode({name: value for name, value in filters.items() if value})
    url = reverse("admin:audit_call_changelist")
    return f"{url}?{query}" if query else url


def row_url(row: Model) -> str:
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=(row.pk,))
