
from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('audit', '0003_tallies'),
    ]

    operations = [
        migrations.AlterModelOptions(
            name='call',
            options={'ordering': ('-id',), 'permissions': (('cancel_call', 'Can cancel running calls'),)},
        ),
    ]
