from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('identity', '0001_initial'),
        migrations.swappable_dependency(settings.OAUTH2_PROVIDER_APPLICATION_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name='provider',
            name='accepts_assertions',
            field=models.BooleanField(default=False, help_text='When on, this provider connects people to the clients below, with signed assertions (ID-JAG). Nobody is asked.', verbose_name='accepts assertions'),
        ),
        migrations.AddField(
            model_name='provider',
            name='assertion_clients',
            field=models.ManyToManyField(blank=True, help_text='Confidential clients that an administrator added. No others are accepted.', limit_choices_to={'client_type': 'confidential', 'registration_source': 'manual'}, related_name='+', to=settings.OAUTH2_PROVIDER_APPLICATION_MODEL, verbose_name='clients'),
        ),
    ]
