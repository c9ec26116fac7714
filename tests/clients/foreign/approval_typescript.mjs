// One call by the official TypeScript SDK, 1.x or 2.x: reads what to call from stdin, writes a line for everything that happens.
import { readFileSync } from 'node:fs';

const task = JSON.parse(readFileSync(0, 'utf8'));
const say = (event) => process.stdout.write(`${JSON.stringify(event)}\n`);
const headers = { Authorization: `Bearer ${task.token}` };
const capabilities = task.asks ? { elicitation: { form: {}, url: {} } } : {};

async function connect() {
  if (task.sdk === 2) {
    const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
    const mode = task.revision === '2026-07-28' ? 'auto' : 'legacy';
    const client = new Client({ name: 'test', version: '1' }, { capabilities, versionNegotiation: { mode } });
    if (task.asks) client.setRequestHandler('elicitation/create', answer);
    await client.connect(new StreamableHTTPClientTransport(new URL(task.url), { requestInit: { headers } }));
    return [client, (parameters, options) => client.callTool(parameters, options)];
  }
  const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
  const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
  const { ElicitRequestSchema } = await import('@modelcontextprotocol/sdk/types.js');
  const client = new Client({ name: 'test', version: '1' }, { capabilities });
  if (task.asks) client.setRequestHandler(ElicitRequestSchema, answer);
  await client.connect(new StreamableHTTPClientTransport(new URL(task.url), { requestInit: { headers } }));
  return [client, (parameters, options) => client.callTool(parameters, undefined, options)];
}

async function answer({ params }) {
  if (params.mode === 'url') {
    say({ asked: 'url', message: params.message, link: params.url });
    return { action: 'accept' };
  }
  say({ asked: 'form', message: params.message });
  return { action: 'accept', content: { run: true } };
}

// Its time-out for a request stays at its default: 60 seconds, which progress does not prolong.
const [client, call] = await connect();
const onprogress = ({ message }) => say({ progress: message ?? null });
const result = await call({ name: task.tool, arguments: task.arguments }, { onprogress });
const revision = task.sdk === 2 ? client.getNegotiatedProtocolVersion() : null;
await client.close();
process.stdout.write(
  `${JSON.stringify({ revision, result: result.content[0].text, error: result.isError === true })}\n`,
  () => process.exit(0),
);
