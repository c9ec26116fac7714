// The official TypeScript SDK 1.x: reads what to do from stdin, writes reports to stdout.
import { readFileSync } from 'node:fs';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { WebSocketClientTransport } from '@modelcontextprotocol/sdk/client/websocket.js';

const task = JSON.parse(readFileSync(0, 'utf8'));
const { version } = JSON.parse(readFileSync('node_modules/@modelcontextprotocol/sdk/package.json', 'utf8'));
const plainWebSocket = globalThis.WebSocket;

function transport(use) {
  if (use.transport === 'http') {
    const headers = { Authorization: `Bearer ${use.token}` };
    return new StreamableHTTPClientTransport(new URL(task.http), { requestInit: { headers } });
  }
  // This transport makes its socket with the global WebSocket and lets nothing be added. A page in a browser can offer
  // the token as a second subprotocol, and so does this.
  globalThis.WebSocket = class extends plainWebSocket {
    constructor(address, subprotocol) {
      super(address, [subprotocol, `bearer.${use.token}`]);
    }
  };
  return new WebSocketClientTransport(new URL(task.websocket));
}

async function report(use) {
  const client = new Client({ name: task.name, version: '1' });
  const connection = transport(use);
  // The client tells its transport, if that wants to know, which revision was agreed upon, and nobody else.
  let revision;
  const told = connection.setProtocolVersion?.bind(connection);
  connection.setProtocolVersion = (agreed) => {
    revision = agreed;
    told?.(agreed);
  };
  await client.connect(connection);
  const { tools } = await client.listTools();
  const progress = [];
  const onprogress = (heard) => progress.push([heard.progress, heard.total, heard.message]);
  const call = (name, options) => client.callTool({ name, arguments: task.calls[name] }, undefined, options);
  const total = await call('calculate_sum');
  const csv = await call('analyze_csv');
  const long = await call('long_task', { onprogress });
  const refused = await client.callTool({ name: task.refused, arguments: { path: 'x' } }).then(
    (result) => `not refused: ${JSON.stringify(result)}`,
    (error) => error.message,
  );
  await client.close();
  return {
    revision,
    tools: tools.map((tool) => tool.name),
    sum: total.content[0].text,
    csv: csv.content[0].text,
    structured: csv.structuredContent ?? null,
    long: long.content[0].text,
    progress,
    refused,
  };
}

const reports = [];
for (const use of task.uses) reports.push(await report(use));
process.stdout.write(JSON.stringify({ version, reports }), () => process.exit(0));
