from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('oauth', '0001_initial'),
    ]

    operations = [
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
        migrations.AddField(
            model_name='connectedapp',
            name='identity',
            field=models.BigIntegerField(editable=False, null=True, verbose_name='identity'),
        ),
    ]
