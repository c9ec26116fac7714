"""Make the tables of a new database in one step. A database that has some of the replaced migrations goes on with those.

It depends on what they depend on, never on other squashed migrations: only Django knows which of both a database takes.
Their changes of rows are not here: a new database has no rows.
"""

import django.db.models.deletion
import django.utils.timezone
import uuid
from django.db import migrations, models
from toolhub.migration_operations import CreateModels


class Migration(migrations.Migration):

    replaces = [
        ('scim', '0001_initial'),
    ]

    initial = True

    dependencies = [
        ('identity', '0001_initial'),
    ]

    operations = [
        CreateModels(
            models=[
                migrations.CreateModel(
                    name='ScimToken',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('digest', models.CharField(editable=False, max_length=64, unique=True, verbose_name='digest')),
                        ('prefix', models.CharField(editable=False, max_length=16, verbose_name='starts with')),
                        ('created', models.DateTimeField(default=django.utils.timezone.now, editable=False, verbose_name='created')),
                        ('expires', models.DateTimeField(editable=False, null=True, verbose_name='expires')),
                        ('last_used', models.DateTimeField(editable=False, null=True, verbose_name='last used')),
                        ('last_address', models.CharField(blank=True, editable=False, max_length=64, verbose_name='last used from')),
                        ('revoked', models.DateTimeField(editable=False, null=True, verbose_name='revoked')),
                        ('provider', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='scim_tokens', to='identity.provider', verbose_name='identity provider')),
                    ],
                    options={
                        'verbose_name': 'provisioning token',
                        'verbose_name_plural': 'provisioning tokens',
                        'ordering': ('-id',),
                        'default_permissions': (),
                    },
                ),
                migrations.CreateModel(
                    name='ScimUser',
                    fields=[
                        ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        ('user_name', models.CharField(max_length=255, verbose_name='user name there')),
                        ('user_name_key', models.CharField(editable=False, max_length=765)),
                        ('given_name', models.CharField(blank=True, max_length=255, verbose_name='first name')),
                        ('family_name', models.CharField(blank=True, max_length=255, verbose_name='last name')),
                        ('display_name', models.CharField(blank=True, max_length=255, verbose_name='display name')),
                        ('email', models.CharField(blank=True, max_length=255, verbose_name='email address')),
                        ('created', models.DateTimeField(default=django.utils.timezone.now, editable=False, verbose_name='created')),
                        ('modified', models.DateTimeField(auto_now=True, verbose_name='changed')),
                        ('identity', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='scim_user', to='identity.identity', verbose_name='identity')),
                        ('provider', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='scim_users', to='identity.provider', verbose_name='identity provider')),
                    ],
                    options={
                        'verbose_name': 'provisioned user',
                        'verbose_name_plural': 'provisioned users',
                        'default_permissions': (),
                        'indexes': [models.Index(fields=['provider', 'created', 'id'], name='scim_user_order')],
                        'constraints': [models.UniqueConstraint(fields=('provider', 'user_name_key'), name='scim_user_name')],
                    },
                ),
                migrations.CreateModel(
                    name='ScimGroup',
                    fields=[
                        ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        ('external_id', models.CharField(blank=True, max_length=255, verbose_name='ID there')),
                        ('display_name', models.CharField(max_length=255, verbose_name='name there')),
                        ('display_name_key', models.CharField(editable=False, max_length=765, verbose_name='name for comparison')),
                        ('created', models.DateTimeField(default=django.utils.timezone.now, editable=False, verbose_name='created')),
                        ('modified', models.DateTimeField(auto_now=True, verbose_name='changed')),
                        ('provider', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='scim_groups', to='identity.provider', verbose_name='identity provider')),
                        ('members', models.ManyToManyField(blank=True, related_name='groups', to='scim.scimuser', verbose_name='members')),
                    ],
                    options={
                        'verbose_name': 'provisioned group',
                        'verbose_name_plural': 'provisioned groups',
                        'default_permissions': ('view',),
                        'indexes': [models.Index(fields=['provider', 'created', 'id'], name='scim_group_order')],
                        'constraints': [models.UniqueConstraint(fields=('provider', 'display_name_key'), name='scim_group_name'), models.UniqueConstraint(condition=models.Q(('external_id', ''), _negated=True), fields=('provider', 'external_id'), name='scim_group_external_id')],
                    },
                ),
            ],
        ),
    ]
