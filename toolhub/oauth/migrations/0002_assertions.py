"""The connections of clients, and assertions.

0001 made the first two tables before 0002 did. A database from then keeps them, and gets what is missing.
"""

import django.db.models.deletion
import django.utils.timezone
import uuid
from django.conf import settings
from django.db import migrations, models
from toolhub.migration_operations import CreateMissingModel, CreateModels


class Migration(migrations.Migration):

    dependencies = [
        ('catalog', '0013_saved_test_cases'),
        ('oauth', '0001_initial'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        CreateModels(
            models=[
                CreateMissingModel(
                    name='ConnectedApp',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('family', models.UUIDField(default=uuid.uuid4, editable=False, unique=True, verbose_name='token family')),
                        ('scope', models.CharField(editable=False, max_length=200, verbose_name='scope')),
                        ('restricted', models.BooleanField(default=False, verbose_name='only some toolsets')),
                        ('destination', models.CharField(editable=False, max_length=300, verbose_name='answers go to')),
                        ('created', models.DateTimeField(default=django.utils.timezone.now, editable=False, verbose_name='created')),
                        ('activated', models.DateTimeField(editable=False, null=True, verbose_name='connected')),
                        ('expires', models.DateTimeField(verbose_name='expires')),
                        ('last_used', models.DateTimeField(editable=False, null=True, verbose_name='last used')),
                        ('last_address', models.CharField(blank=True, editable=False, max_length=64, verbose_name='last used from')),
                        ('revoked', models.DateTimeField(editable=False, null=True, verbose_name='revoked')),
                        ('by_device', models.BooleanField(default=False, editable=False, verbose_name='by a device code')),
                        ('question', models.CharField(editable=False, max_length=64, unique=True, verbose_name='digest of the page')),
                        ('code_digest', models.CharField(editable=False, max_length=64, unique=True, verbose_name='digest of the code')),
                        ('rotated', models.DateTimeField(editable=False, null=True, verbose_name='refreshed')),
                        ('previous_digest', models.CharField(blank=True, editable=False, max_length=64, verbose_name='digest of the previous refresh token')),
                        ('successor', models.TextField(blank=True, editable=False, verbose_name='encrypted answer')),
                        ('client', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='connections', to=settings.OAUTH2_PROVIDER_APPLICATION_MODEL, verbose_name='client')),
                        ('toolsets', models.ManyToManyField(blank=True, related_name='+', to='catalog.toolset', verbose_name='toolsets')),
                        ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='connected_apps', to=settings.AUTH_USER_MODEL, verbose_name='user')),
                    ],
                    options={
                        'verbose_name': 'connected app',
                        'verbose_name_plural': 'connected apps',
                        'ordering': ('-id',),
                        'indexes': [models.Index(fields=['user', '-id'], name='connected_app_user')],
                    },
                ),
                CreateMissingModel(
                    name='DeviceRequest',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('device_digest', models.CharField(editable=False, max_length=64, unique=True)),
                        ('user_code', models.CharField(editable=False, max_length=16, unique=True)),
                        ('scope', models.CharField(editable=False, max_length=200)),
                        ('address', models.CharField(editable=False, max_length=64)),
                        ('expires', models.DateTimeField()),
                        ('interval', models.PositiveSmallIntegerField(default=5)),
                        ('polled', models.DateTimeField(null=True)),
                        ('denied', models.BooleanField(default=False)),
                        ('client', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.OAUTH2_PROVIDER_APPLICATION_MODEL, verbose_name='client')),
                        ('connection', models.OneToOneField(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='oauth.connectedapp')),
                    ],
                    options={
                        'verbose_name': 'device request',
                        'verbose_name_plural': 'device requests',
                        'default_permissions': (),
                    },
                ),
                migrations.CreateModel(
                    name='UsedAssertion',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('digest', models.CharField(editable=False, max_length=64, unique=True)),
                        ('expires', models.DateTimeField(db_index=True, editable=False)),
                    ],
                    options={
                        'verbose_name': 'used assertion',
                        'verbose_name_plural': 'used assertions',
                        'default_permissions': (),
                    },
                ),
            ],
        ),
        migrations.AddField(
            model_name='connectedapp',
            name='identity',
            field=models.BigIntegerField(editable=False, null=True, verbose_name='identity'),
        ),
    ]
