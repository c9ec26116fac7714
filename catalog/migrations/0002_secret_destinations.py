import catalog.models.fields
import catalog.models.secrets
from django.db import migrations

CONNECTION_FIELDS = ('transport', 'url', 'command', 'args', 'env', 'headers', 'allowed_networks', 'timeout')


def allow_current_destinations(apps, schema_editor):
    """Keep entered personal secrets usable: each may go where the tools and upstream servers of today send it.

    Settings that cannot be read allow nothing: the page of the user asks again.
    """
    using = schema_editor.connection.alias
    allowed = {}
    for secret, destination in _flows(apps, using):
        allowed.setdefault(secret, {})[destination.key] = destination.label
    personal = apps.get_model('catalog', 'PersonalSecret')
    for secret, destinations in allowed.items():
        personal.objects.using(using).filter(secret__name=secret).update(destinations=destinations)


def _flows(apps, using):
    from catalog.runners import registry
    from catalog.runners.upstream_mcp import connection

    for tool in apps.get_model('catalog', 'Tool').objects.using(using).filter(enabled=True, settings__contains='secret'):
        yield from _pairs(lambda row: registry.flows(row.runner, row.settings), tool)
    for upstream in apps.get_model('catalog', 'Upstream').objects.using(using).filter(enabled=True):
        yield from _pairs(lambda row: connection.parse(_connection_settings(row)).flows(), upstream)


def _pairs(find, row):
    try:
        return [(flow.secret, flow.destination) for flow in find(row)]
    except Exception:  # settings of today's runners, perhaps from outside: one bad row must not stop the upgrade
        return []


def _connection_settings(row):
    return {'upstream': row.pk, 'name': row.name, **{name: getattr(row, name) for name in CONNECTION_FIELDS}}


class Migration(migrations.Migration):

    dependencies = [
        ('catalog', '0001_initial'),
    ]

    operations = [
        migrations.AlterModelOptions(
            name='secret',
            options={'ordering': ['name'], 'permissions': [('use_secret', 'Can use secrets in tools and upstream servers')], 'verbose_name': 'secret', 'verbose_name_plural': 'secrets'},
        ),
        migrations.AddField(
            model_name='personalsecret',
            name='destinations',
            field=catalog.models.fields.JSONTextField(blank=True, default=dict, editable=False, verbose_name='destinations'),
        ),
        migrations.AddField(
            model_name='secret',
            name='hosts',
            field=catalog.models.fields.JSONTextField(blank=True, default=list, help_text='The secret is sent only to these. Examples: api.example.com (HTTPS), *.example.com, http://10.0.0.5:8080, program:git. Empty: wherever a tool or upstream server sends it.', validators=[catalog.models.secrets.check_hosts], verbose_name='hosts'),
        ),
        migrations.RunPython(allow_current_destinations, migrations.RunPython.noop),
    ]
