"""Make the tables of a new database in one step. A database that has some of the replaced migrations goes on with those.

It depends on what they depend on, never on other squashed migrations: only Django knows which of both a database takes.
Their changes of rows are not here: a new database has no rows.
"""

import django.db.models.deletion
import django.db.models.functions.text
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models
from toolhub.migration_operations import CreateModels


class Migration(migrations.Migration):

    replaces = [
        ('people', '0001_initial'),
        ('people', '0002_mail_about_requests'),
    ]

    initial = True

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        ('catalog', '0017_requests_and_reports'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        CreateModels(
            models=[
                migrations.CreateModel(
                    name='EnteredEmail',
                    fields=[
                        ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to=settings.AUTH_USER_MODEL, verbose_name='user')),
                        ('by', models.CharField(max_length=150, verbose_name='entered by')),
                        ('at', models.DateTimeField(auto_now=True, verbose_name='entered at')),
                    ],
                    options={
                        'verbose_name': 'entered email address',
                        'verbose_name_plural': 'entered email addresses',
                        'default_permissions': (),
                    },
                ),
                migrations.CreateModel(
                    name='Invitation',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('email', models.EmailField(blank=True, max_length=254, verbose_name='email address')),
                        ('username', models.CharField(blank=True, help_text='The person may choose another.', max_length=150, verbose_name='suggested username')),
                        ('first_name', models.CharField(blank=True, max_length=150, verbose_name='first name')),
                        ('last_name', models.CharField(blank=True, max_length=150, verbose_name='last name')),
                        ('note', models.CharField(blank=True, help_text='Only administrators see it.', max_length=500, verbose_name='note')),
                        ('language', models.CharField(blank=True, editable=False, max_length=16, verbose_name='language of the mail')),
                        ('inviter_name', models.CharField(editable=False, max_length=150, verbose_name='invited by')),
                        ('salt', models.CharField(editable=False, max_length=64, verbose_name='salt')),
                        ('digest', models.CharField(editable=False, max_length=64, unique=True, verbose_name='digest')),
                        ('created', models.DateTimeField(default=django.utils.timezone.now, editable=False, verbose_name='created')),
                        ('expires', models.DateTimeField(verbose_name='expires')),
                        ('accepted', models.DateTimeField(editable=False, null=True, verbose_name='accepted')),
                        ('accepted_name', models.CharField(blank=True, editable=False, max_length=150, verbose_name='accepted by')),
                        ('revoked', models.DateTimeField(editable=False, null=True, verbose_name='revoked')),
                        ('mailed', models.DateTimeField(editable=False, null=True, verbose_name='mail sent')),
                        ('mail_problem', models.CharField(blank=True, editable=False, max_length=100, verbose_name='mail problem')),
                        ('accepted_by', models.ForeignKey(editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL, verbose_name='accepted by')),
                        ('groups', models.ManyToManyField(blank=True, related_name='+', to='auth.group', verbose_name='groups')),
                        ('inviter', models.ForeignKey(editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL, verbose_name='invited by')),
                    ],
                    options={
                        'verbose_name': 'invitation',
                        'verbose_name_plural': 'invitations',
                        'ordering': ('-id',),
                        'default_permissions': ('view',),
                        'indexes': [models.Index(django.db.models.functions.text.Lower('email'), name='invitation_email')],
                    },
                ),
                migrations.CreateModel(
                    name='OutgoingMail',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('language', models.CharField(blank=True, max_length=16, verbose_name='language of the mail')),
                        ('created', models.DateTimeField(default=django.utils.timezone.now, verbose_name='created')),
                        ('due', models.DateTimeField(db_index=True, default=django.utils.timezone.now, verbose_name='due')),
                        ('attempts', models.PositiveIntegerField(default=0, verbose_name='attempts')),
                        ('invitation', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='people.invitation', verbose_name='invitation')),
                        ('user', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL, verbose_name='user')),
                        ('request', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='catalog.accessrequest', verbose_name='access request')),
                    ],
                    options={
                        'verbose_name': 'outgoing mail',
                        'verbose_name_plural': 'outgoing mails',
                        'default_permissions': (),
                    },
                ),
            ],
        ),
    ]
