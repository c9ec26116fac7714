"""Make the tables of a new database in one step. A database that has some of the replaced migrations goes on with those.

It depends on what they depend on, never on other squashed migrations: only Django knows which of both a database takes.
Their changes of rows are not here: a new database has no rows.
"""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from toolhub.migration_operations import CreateModels


class Migration(migrations.Migration):

    replaces = [
        ('audit', '0001_initial'),
        ('audit', '0002_keyed_digests'),
        ('audit', '0003_call_text'),
        ('audit', '0004_whole_bodies'),
        ('audit', '0005_case_files'),
        ('audit', '0006_text_removal'),
    ]

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        CreateModels(
            models=[
                migrations.CreateModel(
                    name='Link',
                    fields=[
                        ('id', models.BigIntegerField(primary_key=True, serialize=False, verbose_name='id')),
                        ('writer', models.BigIntegerField(verbose_name='writer')),
                        ('sequence', models.BigIntegerField(verbose_name='sequence')),
                        ('kind', models.CharField(max_length=12, verbose_name='kind')),
                        ('subject', models.CharField(max_length=36, verbose_name='subject')),
                        ('content', models.CharField(max_length=64, verbose_name='content')),
                        ('hash', models.CharField(max_length=64, verbose_name='hash')),
                        ('mac', models.CharField(db_default='', default='', max_length=32, verbose_name='keyed digest')),
                    ],
                    options={
                        'verbose_name': 'link',
                        'verbose_name_plural': 'hash chain entries',
                        'ordering': ('id',),
                    },
                ),
                migrations.CreateModel(
                    name='RollupProgress',
                    fields=[
                        ('id', models.SmallIntegerField(primary_key=True, serialize=False, verbose_name='id')),
                        ('through', models.UUIDField(verbose_name='newest call counted')),
                        ('open', models.TextField(verbose_name='open')),
                    ],
                    options={
                        'verbose_name': 'rollup progress',
                        'verbose_name_plural': 'rollup progress',
                        'default_permissions': (),
                    },
                ),
                migrations.CreateModel(
                    name='Verification',
                    fields=[
                        ('id', models.UUIDField(primary_key=True, serialize=False, verbose_name='id')),
                        ('at', models.DateTimeField(verbose_name='at')),
                        ('ok', models.BooleanField(verbose_name='passed')),
                        ('through', models.CharField(max_length=64, verbose_name='newest call checked')),
                        ('problem', models.TextField(verbose_name='problem')),
                        ('problem_reason', models.TextField(default='', verbose_name='problem code')),
                        ('links', models.BigIntegerField(verbose_name='hash chain entries')),
                        ('outside_head', models.BooleanField(verbose_name='external checkpoint')),
                        ('checkpoint', models.BigIntegerField(null=True, verbose_name='checkpoint')),
                        ('mac', models.CharField(db_default='', default='', max_length=32, verbose_name='keyed digest')),
                        ('uncovered', models.BigIntegerField(db_default=0, default=0, verbose_name='entries not yet covered')),
                    ],
                    options={
                        'verbose_name': 'verification',
                        'verbose_name_plural': 'verifications',
                        'ordering': ('-id',),
                    },
                ),
                migrations.CreateModel(
                    name='Writer',
                    fields=[
                        ('id', models.BigIntegerField(primary_key=True, serialize=False, verbose_name='id')),
                        ('host', models.CharField(max_length=200, verbose_name='host')),
                        ('pid', models.BigIntegerField(verbose_name='pid')),
                        ('born', models.BigIntegerField(verbose_name='born')),
                        ('started', models.DateTimeField(verbose_name='started')),
                        ('heartbeat', models.DateTimeField(verbose_name='heartbeat')),
                        ('ended', models.DateTimeField(null=True, verbose_name='expired')),
                        ('covered', models.BigIntegerField(verbose_name='covered')),
                        ('sealed', models.BooleanField(verbose_name='sealed')),
                        ('covered_mac', models.CharField(db_default='', default='', max_length=32, verbose_name='keyed digest of the coverage')),
                    ],
                    options={
                        'verbose_name': 'writer',
                        'verbose_name_plural': 'writers',
                        'ordering': ('id',),
                    },
                ),
                migrations.CreateModel(
                    name='Action',
                    fields=[
                        ('id', models.UUIDField(primary_key=True, serialize=False, verbose_name='id')),
                        ('at', models.DateTimeField(verbose_name='at')),
                        ('actor', models.CharField(max_length=200, verbose_name='actor')),
                        ('verb', models.CharField(max_length=64, verbose_name='operation')),
                        ('kind', models.CharField(max_length=64, verbose_name='kind')),
                        ('target', models.CharField(max_length=500, verbose_name='target')),
                        ('before', models.TextField(verbose_name='before')),
                        ('after', models.TextField(verbose_name='after')),
                        ('link', models.BigIntegerField(verbose_name='link')),
                    ],
                    options={
                        'verbose_name': 'admin change',
                        'verbose_name_plural': 'admin activity',
                        'ordering': ('-id',),
                        'indexes': [models.Index(fields=['kind', 'target', 'id'], name='audit_action_target')],
                    },
                ),
                migrations.CreateModel(
                    name='Checkpoint',
                    fields=[
                        ('number', models.BigIntegerField(primary_key=True, serialize=False, verbose_name='number')),
                        ('at', models.DateTimeField(verbose_name='at')),
                        ('heads', models.TextField(verbose_name='heads')),
                        ('previous', models.CharField(max_length=64, verbose_name='previous')),
                        ('hash', models.CharField(max_length=64, verbose_name='hash')),
                        ('key', models.CharField(max_length=16, verbose_name='key')),
                        ('signature', models.CharField(max_length=128, verbose_name='signature')),
                    ],
                    options={
                        'verbose_name': 'checkpoint',
                        'verbose_name_plural': 'checkpoints',
                        'ordering': ('-number',),
                        'indexes': [models.Index(fields=['at'], name='audit_checkpoint_at')],
                    },
                ),
                migrations.CreateModel(
                    name='Rollup',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('span', models.CharField(max_length=1, verbose_name='span')),
                        ('at', models.DateTimeField(verbose_name='at')),
                        ('what', models.CharField(max_length=8, verbose_name='subject')),
                        ('key', models.CharField(max_length=500, verbose_name='key')),
                        ('calls', models.BigIntegerField(verbose_name='calls')),
                        ('failed', models.BigIntegerField(verbose_name='failed')),
                    ],
                    options={
                        'verbose_name': 'rollup',
                        'verbose_name_plural': 'rollups',
                        'ordering': ('id',),
                        'default_permissions': (),
                        'constraints': [models.UniqueConstraint(fields=('span', 'what', 'at', 'key'), name='audit_rollup_cell')],
                    },
                ),
                migrations.CreateModel(
                    name='Call',
                    fields=[
                        ('id', models.UUIDField(primary_key=True, serialize=False, verbose_name='id')),
                        ('username', models.CharField(max_length=150, verbose_name='username')),
                        ('credential_id', models.CharField(max_length=64, verbose_name='credential id')),
                        ('credential', models.CharField(max_length=200, verbose_name='credential')),
                        ('client_name', models.CharField(max_length=200, verbose_name='client name')),
                        ('client_version', models.CharField(max_length=100, verbose_name='client version')),
                        ('transport', models.CharField(max_length=16, verbose_name='transport')),
                        ('revision', models.CharField(max_length=16, verbose_name='protocol version')),
                        ('address', models.CharField(max_length=64, verbose_name='address')),
                        ('method', models.CharField(max_length=64, verbose_name='method')),
                        ('name', models.CharField(max_length=500, verbose_name='name')),
                        ('target_id', models.BigIntegerField(null=True, verbose_name='target id')),
                        ('definition', models.CharField(max_length=64, verbose_name='definition')),
                        ('rule', models.CharField(max_length=500, verbose_name='rule')),
                        ('rule_reason', models.TextField(verbose_name='rule code')),
                        ('request_id', models.CharField(max_length=200, verbose_name='request id')),
                        ('arguments', models.TextField(verbose_name='arguments')),
                        ('outcome', models.CharField(choices=[('running', 'Running'), ('ok', 'Success'), ('tool_error', 'Tool error'), ('invalid_arguments', 'Invalid arguments'), ('refused', 'Denied'), ('unknown_tool', 'Unknown tool'), ('limited', 'Rate limited'), ('timeout', 'Timed out'), ('cancelled', 'Cancelled'), ('input_required', 'Input required'), ('unknown', 'Interrupted')], max_length=20, verbose_name='status')),
                        ('error_class', models.CharField(max_length=200, verbose_name='error class')),
                        ('detail', models.TextField(verbose_name='detail')),
                        ('detail_reason', models.TextField(verbose_name='detail code')),
                        ('result', models.TextField(verbose_name='result')),
                        ('result_bytes', models.BigIntegerField(verbose_name='result bytes')),
                        ('result_sha256', models.CharField(max_length=64, verbose_name='result sha256')),
                        ('started_at', models.DateTimeField(verbose_name='started at')),
                        ('ended_at', models.DateTimeField(null=True, verbose_name='ended at')),
                        ('duration_us', models.BigIntegerField(null=True, verbose_name='duration (µs)')),
                        ('writer', models.BigIntegerField(verbose_name='writer')),
                        ('link', models.BigIntegerField(verbose_name='link')),
                        ('end_link', models.BigIntegerField(null=True, verbose_name='end link')),
                        ('body_state', models.CharField(choices=[('', 'kept'), ('pruned', 'pruned')], max_length=10, verbose_name='body state')),
                        ('user', models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to=settings.AUTH_USER_MODEL, verbose_name='user')),
                    ],
                    options={
                        'verbose_name': 'call',
                        'verbose_name_plural': 'calls',
                        'ordering': ('-id',),
                        'permissions': (('cancel_call', 'Can cancel running calls'), ('make_casefile', 'Can make case files of the audit log')),
                        'indexes': [models.Index(fields=['user', 'id'], name='audit_call_user'), models.Index(fields=['outcome', 'id'], name='audit_call_outcome'), models.Index(fields=['name', 'id'], name='audit_call_name'), models.Index(fields=['user', 'outcome', 'id'], name='audit_call_user_outcome')],
                    },
                ),
                migrations.CreateModel(
                    name='SavedView',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('name', models.CharField(max_length=80, verbose_name='name')),
                        ('filters', models.TextField(verbose_name='filters')),
                        ('shared', models.BooleanField(default=False, verbose_name='shared with everyone who can read the audit log')),
                        ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL, verbose_name='owner')),
                    ],
                    options={
                        'verbose_name': 'saved view',
                        'verbose_name_plural': 'saved views',
                        'ordering': ('name', 'id'),
                        'default_permissions': (),
                        'constraints': [models.UniqueConstraint(fields=('owner', 'name'), name='audit_savedview_name')],
                    },
                ),
                migrations.CreateModel(
                    name='CallText',
                    fields=[
                        ('id', models.BigAutoField(primary_key=True, serialize=False, verbose_name='id')),
                        ('call_id', models.UUIDField(unique=True, verbose_name='call')),
                        ('text', models.TextField(verbose_name='text')),
                    ],
                    options={
                        'verbose_name': 'text of a call',
                        'verbose_name_plural': 'texts of calls',
                        'default_permissions': (),
                    },
                ),
                migrations.CreateModel(
                    name='TextProgress',
                    fields=[
                        ('id', models.SmallIntegerField(primary_key=True, serialize=False, verbose_name='id')),
                        ('through', models.UUIDField(verbose_name='newest call indexed')),
                        ('open', models.TextField(verbose_name='open')),
                        ('removal', models.CharField(blank=True, default='', max_length=8, verbose_name='removal')),
                    ],
                    options={
                        'verbose_name': 'progress of the text index',
                        'verbose_name_plural': 'progress of the text index',
                        'default_permissions': (),
                    },
                ),
                migrations.CreateModel(
                    name='WholeBody',
                    fields=[
                        ('digest', models.CharField(max_length=64, primary_key=True, serialize=False, verbose_name='result sha256')),
                        ('size', models.BigIntegerField(verbose_name='size')),
                        ('stored', models.BigIntegerField(verbose_name='stored size')),
                        ('data', models.BinaryField(verbose_name='data')),
                    ],
                    options={
                        'verbose_name': 'whole body',
                        'verbose_name_plural': 'whole bodies',
                        'ordering': ('digest',),
                        'default_permissions': (),
                    },
                ),
                migrations.CreateModel(
                    name='WholeBodyUse',
                    fields=[
                        ('call_id', models.UUIDField(primary_key=True, serialize=False, verbose_name='id')),
                        ('digest', models.CharField(db_index=True, max_length=64, verbose_name='result sha256')),
                    ],
                    options={
                        'verbose_name': 'use of a whole body',
                        'verbose_name_plural': 'uses of whole bodies',
                        'ordering': ('call_id',),
                        'default_permissions': (),
                    },
                ),
            ],
        ),
    ]
