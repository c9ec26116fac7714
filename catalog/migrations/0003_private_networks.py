import catalog.models.fields
from django.conf import settings
from django.db import migrations


def list_operators_networks(apps, schema_editor):
    """Keep upstream servers reachable: until now each could be in any network of the operator, listed or not."""
    using = schema_editor.connection.alias
    for row in apps.get_model('catalog', 'Upstream').objects.using(using).exclude(transport='stdio'):
        listed = row.allowed_networks if isinstance(row.allowed_networks, list) else []
        missing = [network for network in settings.ALLOW_PRIVATE_NETWORKS if network not in listed]
        if missing:
            row.allowed_networks = [*listed, *missing]
            row.save(update_fields=['allowed_networks'])


class Migration(migrations.Migration):

    dependencies = [
        ('catalog', '0002_secret_destinations'),
    ]

    operations = [
        migrations.AlterModelOptions(
            name='upstream',
            options={'ordering': ['name'], 'permissions': [('open_private_networks', 'Can open private networks to upstream servers')], 'verbose_name': 'upstream server', 'verbose_name_plural': 'upstream servers'},
        ),
        migrations.AlterField(
            model_name='upstream',
            name='allowed_networks',
            field=catalog.models.fields.JSONTextField(blank=True, default=list, help_text='Private networks that this upstream server may be in, as CIDR or CIDR:port. Example: ["10.1.2.0/24:8080"]. TOOLHUB_ALLOW_PRIVATE_NETWORKS must include them. Empty: public addresses only.', verbose_name='allowed networks'),
        ),
        migrations.RunPython(list_operators_networks, migrations.RunPython.noop),
    ]
