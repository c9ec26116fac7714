"""Keyed digests of hash chains, coverage and verifications. Chains that exist are taken as they are at the upgrade."""

from django.db import migrations, models

from audit.format import chain, keys
from audit.integrity.checkpoints import coverage_text


def authenticate(apps, schema_editor):
    """Add the keyed digest to the last link of each chain, and to the coverage that checkpoints gave it."""
    link_model, writer_model = apps.get_model("audit", "Link"), apps.get_model("audit", "Writer")
    for writer in writer_model.objects.order_by("id"):
        own = link_model.objects.filter(id__gte=chain.link_id(writer.id, 0), id__lt=chain.link_id(writer.id + 1, 0))
        last = own.order_by("id").last()
        sequence = chain.split_link_id(last.id)[1] if last is not None else 0
        if last is not None:
            own.filter(id=last.id).update(mac=keys.make_mac(chain.mac_text(writer.id, sequence, last.hash)))
        if writer.covered > sequence or (writer.sealed and writer.covered != sequence):
            writer.covered, writer.sealed = 0, False  # the next checkpoint covers it
        writer.covered_mac = keys.make_mac(coverage_text(writer.id, writer.covered, writer.sealed))
        writer.save(update_fields=["covered", "sealed", "covered_mac"])


class Migration(migrations.Migration):

    dependencies = [
        ("audit", "0001_initial"),
    ]

    operations = [
        migrations.AddField(
            model_name="link",
            name="mac",
            field=models.CharField(db_default="", default="", max_length=32, verbose_name="keyed digest"),
        ),
        migrations.AddField(
            model_name="verification",
            name="checkpoint",
            field=models.BigIntegerField(null=True, verbose_name="checkpoint"),
        ),
        migrations.AddField(
            model_name="verification",
            name="mac",
            field=models.CharField(db_default="", default="", max_length=32, verbose_name="keyed digest"),
        ),
        migrations.AddField(
            model_name="verification",
            name="uncovered",
            field=models.BigIntegerField(db_default=0, default=0, verbose_name="entries not yet covered"),
        ),
        migrations.AddField(
            model_name="writer",
            name="covered_mac",
            field=models.CharField(
                db_default="", default="", max_length=32, verbose_name="keyed digest of the coverage"
            ),
        ),
        migrations.RunPython(authenticate, migrations.RunPython.noop),
    ]
