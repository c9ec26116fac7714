import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('access', '0002_serving_processes'),
        ('auth', '0012_alter_user_first_name_max_length'),
    ]

    operations = [
        migrations.CreateModel(
            name='Preference',
            fields=[
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='preference', serialize=False, to=settings.AUTH_USER_MODEL, verbose_name='user')),
                ('language', models.CharField(blank=True, max_length=16, verbose_name='language')),
                ('time_zone', models.CharField(blank=True, max_length=64, verbose_name='time zone')),
            ],
            options={
                'verbose_name': 'preference',
                'verbose_name_plural': 'preferences',
                'default_permissions': (),
            },
        ),
    ]
