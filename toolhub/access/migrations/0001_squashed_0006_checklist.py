"""Make the tables of a new database in one step. A database that has some of the replaced migrations goes on with those.

It depends on what they depend on, never on other squashed migrations: only Django knows which of both a database takes.
Their changes of rows are not here: a new database has no rows.
"""

import django.db.models.deletion
import django.utils.timezone
import toolhub.access.models
from django.conf import settings
from django.db import migrations, models
from toolhub.migration_operations import CreateModels


class Migration(migrations.Migration):

    replaces = [
        ('access', '0001_initial'),
        ('access', '0002_token_made_by_owner'),
        ('access', '0003_temporary_passwords'),
        ('access', '0004_edge_of_a_process'),
        ('access', '0005_rotated_tokens'),
        ('access', '0006_checklist'),
    ]

    initial = True

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        ('catalog', '0001_initial'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        CreateModels(
            models=[
                migrations.CreateModel(
                    name='Preference',
                    fields=[
                        ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='preference', serialize=False, to=settings.AUTH_USER_MODEL, verbose_name='user')),
                        ('language', models.CharField(blank=True, max_length=16, verbose_name='language')),
                        ('time_zone', models.CharField(blank=True, max_length=64, verbose_name='time zone')),
                        ('checklist_hidden', models.BooleanField(default=False, verbose_name='checklist hidden')),
                    ],
                    options={
                        'verbose_name': 'preference',
                        'verbose_name_plural': 'preferences',
                        'default_permissions': (),
                    },
                ),
                migrations.CreateModel(
                    name='ServingProcess',
                    fields=[
                        ('id', models.CharField(max_length=32, primary_key=True, serialize=False, verbose_name='id')),
                        ('host', models.CharField(max_length=200, verbose_name='host')),
                        ('pid', models.BigIntegerField(verbose_name='pid')),
                        ('started', models.DateTimeField(verbose_name='started')),
                        ('beat', models.DateTimeField(verbose_name='beat')),
                        ('peers', models.TextField(verbose_name='peers')),
                        ('left_out', models.PositiveIntegerField(default=0, verbose_name='left out')),
                        ('jobs', models.TextField(blank=True, default='', verbose_name='background jobs')),
                        ('orders', models.TextField(blank=True, default='', verbose_name='orders')),
                        ('edge', models.TextField(blank=True, default='', verbose_name='edge')),
                    ],
                    options={
                        'verbose_name': 'serving process',
                        'verbose_name_plural': 'serving processes',
                        'ordering': ('started', 'id'),
                        'permissions': (('view_connections', 'Can see who is connected'), ('disconnect_client', 'Can disconnect clients')),
                        'default_permissions': (),
                    },
                ),
                migrations.CreateModel(
                    name='AccessToken',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('name', models.CharField(help_text='The client or machine that uses the token.', max_length=100, validators=[toolhub.access.models.check_name], verbose_name='name')),
                        ('digest', models.CharField(editable=False, max_length=64, unique=True, verbose_name='digest')),
                        ('prefix', models.CharField(editable=False, max_length=16, verbose_name='starts with')),
                        ('created', models.DateTimeField(default=django.utils.timezone.now, editable=False, verbose_name='created')),
                        ('expires', models.DateTimeField(verbose_name='expires')),
                        ('last_used', models.DateTimeField(editable=False, null=True, verbose_name='last used')),
                        ('revoked', models.DateTimeField(editable=False, null=True, verbose_name='revoked')),
                        ('restricted', models.BooleanField(default=False, help_text='When on, the token can use only the toolsets below. With no toolset, it has no access.', verbose_name='only some toolsets')),
                        ('toolsets', models.ManyToManyField(blank=True, related_name='+', to='catalog.toolset', verbose_name='toolsets')),
                        ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='access_tokens', to=settings.AUTH_USER_MODEL, verbose_name='user')),
                        ('made_by_owner', models.BooleanField(default=True, editable=False, help_text='A token that somebody else created never uses the personal secrets of its owner.', verbose_name='created by its owner')),
                        ('client_key', models.CharField(blank=True, editable=False, max_length=32, verbose_name='created for')),
                        ('last_address', models.CharField(blank=True, editable=False, max_length=64, verbose_name='last used from')),
                        ('replaces', models.OneToOneField(editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='successor', to='access.accesstoken', verbose_name='replaces')),
                    ],
                    options={
                        'verbose_name': 'access token',
                        'verbose_name_plural': 'access tokens',
                        'ordering': ('-id',),
                        'indexes': [models.Index(fields=['user', '-id'], name='access_token_user')],
                    },
                ),
                migrations.CreateModel(
                    name='TemporaryPassword',
                    fields=[
                        ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to=settings.AUTH_USER_MODEL, verbose_name='user')),
                        ('by', models.CharField(max_length=150, verbose_name='set by')),
                        ('at', models.DateTimeField(auto_now=True, verbose_name='set at')),
                    ],
                    options={
                        'verbose_name': 'temporary password',
                        'verbose_name_plural': 'temporary passwords',
                    },
                ),
            ],
        ),
    ]
