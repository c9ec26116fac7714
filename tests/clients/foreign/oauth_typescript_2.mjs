// The official TypeScript SDK 2.x signs in: it writes what a browser should open, and reads where that was sent.
import { createInterface } from 'node:readline';
import { Client, StreamableHTTPClientTransport, UnauthorizedError } from '@modelcontextprotocol/client';

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const read = async () => JSON.parse((await lines.next()).value);
const write = (message) => process.stdout.write(`${JSON.stringify(message)}\n`);
const task = await read();

class Provider {
  #kept = {};
  asked = 0;
  get redirectUrl() { return task.redirect; }
  get clientMetadata() {
    return { client_name: 'TypeScript SDK', redirect_uris: [task.redirect], token_endpoint_auth_method: 'none' };
  }
  clientInformation() { return this.#kept.client; }
  saveClientInformation(client) { this.#kept.client = client; }
  tokens() { return this.#kept.tokens; }
  saveTokens(tokens) { this.#kept.tokens = tokens; }
  saveCodeVerifier(verifier) { this.#kept.verifier = verifier; }
  codeVerifier() { return this.#kept.verifier; }
  redirectToAuthorization(url) { this.asked += 1; write({ open: url.href }); }
}

const provider = new Provider();
let transport;

/** Does it, and again after each sign-in that it takes. */
async function signedIn(use) {
  for (;;) {
    try {
      return await use();
    } catch (error) {
      if (!(error instanceof UnauthorizedError)) throw error;
      await transport.finishAuth(new URL((await read()).sent).searchParams);
    }
  }
}

const client = await signedIn(async () => {
  const made = new Client({ name: 'oauth', version: '1' }, { versionNegotiation: { mode: 'auto' } });
  transport = new StreamableHTTPClientTransport(new URL(task.url), { authProvider: provider });
  await made.connect(transport);
  return made;
});
const { tools } = await client.listTools();
const read_only = await client.callTool({ name: 'add', arguments: { a: 1, b: 2 } });
const first = provider.tokens();
const other = await signedIn(() => client.callTool({ name: 'echo', arguments: { text: 'hello' } }));
await client.close();
write({
  done: {
    tools: tools.map((tool) => tool.name),
    sum: read_only.content[0].text,
    echo: other.content[0].text,
    scopes: [first.scope, provider.tokens().scope],
    asked: provider.asked,
  },
});
process.exit(0);
