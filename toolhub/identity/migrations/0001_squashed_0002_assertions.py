"""Make the tables of a new database in one step. A database that has some of the replaced migrations goes on with those.

It depends on what they depend on, never on other squashed migrations: only Django knows which of both a database takes.
Their changes of rows are not here: a new database has no rows.
"""

import django.core.validators
import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models
from toolhub.migration_operations import CreateModels


class Migration(migrations.Migration):

    replaces = [
        ('identity', '0001_initial'),
        ('identity', '0002_assertions'),
    ]

    initial = True

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        migrations.swappable_dependency(settings.OAUTH2_PROVIDER_APPLICATION_MODEL),
    ]

    operations = [
        CreateModels(
            models=[
                migrations.CreateModel(
                    name='Deactivation',
                    fields=[
                        ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='deactivation', serialize=False, to=settings.AUTH_USER_MODEL, verbose_name='user')),
                        ('reason', models.CharField(choices=[('refused', 'The identity provider no longer lets this person sign in'), ('lapsed', 'The sign-in lapsed'), ('removed', 'Provisioning deactivated this person')], max_length=10, verbose_name='reason')),
                        ('at', models.DateTimeField(default=django.utils.timezone.now, verbose_name='at')),
                    ],
                    options={
                        'verbose_name': 'deactivation',
                        'verbose_name_plural': 'deactivations',
                        'default_permissions': (),
                    },
                ),
                migrations.CreateModel(
                    name='Provider',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('slug', models.SlugField(help_text='Part of the redirect address. It cannot change.', max_length=40, unique=True, verbose_name='short name')),
                        ('name', models.CharField(help_text='People see it on the sign-in page.', max_length=100, verbose_name='name')),
                        ('kind', models.CharField(choices=[('openid_connect', 'OpenID Connect'), ('github', 'GitHub'), ('saml', 'SAML')], default='openid_connect', max_length=20, verbose_name='type')),
                        ('enabled', models.BooleanField(default=False, help_text='When off, nobody can sign in with it, and sign-ins lapse.', verbose_name='on')),
                        ('issuer', models.CharField(blank=True, help_text='OpenID Connect: its address, for example https://login.example.com. SAML: its entity ID.', max_length=500, verbose_name='issuer')),
                        ('client_id', models.CharField(blank=True, max_length=255, verbose_name='client ID')),
                        ('client_secret', models.TextField(blank=True, editable=False, verbose_name='client secret')),
                        ('scopes', models.CharField(blank=True, help_text='Separated by spaces. Add offline_access if your provider issues refresh tokens only for it.', max_length=500, verbose_name='scopes')),
                        ('subject_claim', models.CharField(default='sub', help_text='The claim that identifies a person for ever: sub, or oid with Entra. Never a mail address.', max_length=200, verbose_name='subject claim')),
                        ('groups_claim', models.CharField(blank=True, default='groups', help_text='The claim that lists groups.', max_length=200, verbose_name='groups claim')),
                        ('new_people', models.CharField(choices=[('everyone', 'Everyone who can sign in there gets an account'), ('mapped', 'People in a mapped group get an account'), ('nobody', 'Nobody gets an account by signing in')], default='mapped', max_length=10, verbose_name='new people')),
                        ('check_minutes', models.PositiveIntegerField(default=15, help_text='How often the provider is asked whether a person may still sign in, and for their groups.', validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(10080)], verbose_name='check every (minutes)')),
                        ('lapse_hours', models.PositiveIntegerField(default=24, help_text='A person whom the provider did not confirm for so long has to sign in again.', validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(8760)], verbose_name='lapses after (hours)')),
                        ('metadata', models.TextField(blank=True, help_text='The XML document of your provider.', verbose_name='SAML metadata')),
                        ('from_environment', models.BooleanField(default=False, editable=False, verbose_name='from the environment')),
                        ('created', models.DateTimeField(default=django.utils.timezone.now, editable=False, verbose_name='created')),
                        ('accepts_assertions', models.BooleanField(default=False, help_text='When on, this provider connects people to the clients below, with signed assertions (ID-JAG). Nobody is asked.', verbose_name='accepts assertions')),
                        ('assertion_clients', models.ManyToManyField(blank=True, help_text='Confidential clients that an administrator added. No others are accepted.', limit_choices_to={'client_type': 'confidential', 'registration_source': 'manual'}, related_name='+', to=settings.OAUTH2_PROVIDER_APPLICATION_MODEL, verbose_name='clients')),
                    ],
                    options={
                        'verbose_name': 'identity provider',
                        'verbose_name_plural': 'identity providers',
                        'ordering': ('name',),
                        'default_permissions': ('view',),
                    },
                ),
                migrations.CreateModel(
                    name='Identity',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('issuer', models.CharField(max_length=500, verbose_name='issuer')),
                        ('subject', models.CharField(max_length=255, verbose_name='subject')),
                        ('label', models.CharField(blank=True, max_length=255, verbose_name='name there')),
                        ('linked_by_owner', models.BooleanField(default=False, verbose_name='linked by its owner')),
                        ('claimed_groups', models.JSONField(default=list, verbose_name='groups of the last sign-in')),
                        ('provisioned_groups', models.JSONField(default=list, verbose_name='provisioned groups')),
                        ('provisioned', models.BooleanField(default=None, null=True, verbose_name='provisioned')),
                        ('given', models.JSONField(default=list, verbose_name='groups given')),
                        ('refresh_token', models.TextField(blank=True, editable=False, verbose_name='refresh token')),
                        ('created', models.DateTimeField(default=django.utils.timezone.now, editable=False, verbose_name='created')),
                        ('last_sign_in', models.DateTimeField(null=True, verbose_name='last sign-in')),
                        ('checked', models.DateTimeField(null=True, verbose_name='last check')),
                        ('valid_until', models.DateTimeField(null=True, verbose_name='lapses')),
                        ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='identities', to=settings.AUTH_USER_MODEL, verbose_name='user')),
                        ('provider', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='identities', to='identity.provider', verbose_name='identity provider')),
                    ],
                    options={
                        'verbose_name': 'identity',
                        'verbose_name_plural': 'identities',
                        'default_permissions': ('view',),
                        'indexes': [models.Index(fields=['valid_until'], name='identity_valid_until')],
                        'constraints': [models.UniqueConstraint(fields=('issuer', 'subject'), name='identity_issuer_subject')],
                    },
                ),
                migrations.CreateModel(
                    name='GroupMapping',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('value', models.CharField(help_text='As the groups claim spells it: a name, or an ID with Entra.', max_length=255, verbose_name='group there')),
                        ('staff', models.BooleanField(default=False, help_text="Its members can open the administration, with the group's permissions.", verbose_name='staff')),
                        ('group', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='auth.group', verbose_name='group here')),
                        ('provider', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='mappings', to='identity.provider', verbose_name='identity provider')),
                    ],
                    options={
                        'verbose_name': 'group mapping',
                        'verbose_name_plural': 'group mappings',
                        'default_permissions': ('view',),
                        'constraints': [models.UniqueConstraint(fields=('provider', 'value', 'group'), name='identity_mapping_unique')],
                    },
                ),
            ],
        ),
    ]
