"""`{% sentences %}...{% endsentences %}` around sentences that are put together: Chinese has no blank between them."""

from __future__ import annotations

from django import template
from django.template.base import NodeList, Parser, Token
from django.template.context import Context
from django.utils.safestring import SafeString

from toolhub.chinese import close_blanks

register = template.Library()


class SentencesNode(template.Node):
    """What is between the tags, with blanks as the reader's language has them."""

    def __init__(self, nodelist: NodeList) -> None:
        self.nodelist = nodelist

    def render(self, context: Context) -> SafeString:
        return SafeString(close_blanks(self.nodelist.render(context)))


@register.tag
def sentences(parser: Parser, token: Token) -> SentencesNode:
    """Compile the tag."""
    nodelist = parser.parse(("endsentences",))
    parser.delete_first_token()
    return SentencesNode(nodelist)
