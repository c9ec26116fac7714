from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('pages', '0001_initial'),
    ]

    operations = [
        migrations.AlterModelOptions(
            name='backupconfirmation',
            options={'default_permissions': (), 'permissions': (('manage_backups', 'Can see what to back up, and confirm backups'), ('view_settings', 'Can see which environment settings are set')), 'verbose_name': 'backup confirmation', 'verbose_name_plural': 'backup confirmations'},
        ),
    ]
