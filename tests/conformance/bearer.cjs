// Loaded into the conformance suite with NODE_OPTIONS=--require: the suite has no way to send a token of its own.
// It speaks HTTP through three clients (the global fetch, node:http, and its own copy of undici); each gets the header.
'use strict';

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
