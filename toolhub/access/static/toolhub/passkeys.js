// Passkeys: asks the browser for one, and sends its answer with the form around the button.
"use strict";

(() => {
  const toBytes = (text) =>
    Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (character) => character.charCodeAt(0));
  const toText = (buffer) =>
    btoa(Array.from(new Uint8Array(buffer), (byte) => String.fromCharCode(byte)).join(""))
      .replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");

  // Browsers of before 2025 read and write no JSON.
  const withIds = (list) => (list || []).map((one) => ({ ...one, id: toBytes(one.id) }));
  const readCreation = (json) =>
    PublicKeyCredential.parseCreationOptionsFromJSON
      ? PublicKeyCredential.parseCreationOptionsFromJSON(json)
      : {
          ...json,
          challenge: toBytes(json.challenge),
          user: { ...json.user, id: toBytes(json.user.id) },
          excludeCredentials: withIds(json.excludeCredentials),
        };
  const readRequest = (json) =>
    PublicKeyCredential.parseRequestOptionsFromJSON
      ? PublicKeyCredential.parseRequestOptionsFromJSON(json)
      : { ...json, challenge: toBytes(json.challenge), allowCredentials: withIds(json.allowCredentials) };
  const write = (credential) => {
    if (credential.toJSON) return credential.toJSON();
    const response = {};
    for (const name of ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"]) {
      if (credential.response[name]) response[name] = toText(credential.response[name]);
    }
    return {
      id: credential.id,
      rawId: toText(credential.rawId),
      type: credential.type,
      clientExtensionResults: credential.getClientExtensionResults(),
      response,
    };
  };

  // A sentence of the server, ready to be shown.
  class Sentence extends Error {}

  const ask = async (form) => {
    const answer = await fetch(form.dataset.options, {
      method: "POST",
      headers: { Accept: "application/json" },
      body: new URLSearchParams({ csrfmiddlewaretoken: form.elements.csrfmiddlewaretoken.value }),
    });
    if (answer.redirected) { location.reload(); return null; }
    const found = await answer.json();
    if (found.location) { location.assign(found.location); return null; }
    if (found.error) throw new Sentence(found.error);
    return found.publicKey;
  };

  const send = async (form) => {
    const options = await ask(form);
    if (!options) return;
    const credential = form.dataset.passkey === "create"
      ? await navigator.credentials.create({ publicKey: readCreation(options) })
      : await navigator.credentials.get({ publicKey: readRequest(options) });
    form.elements.credential.value = JSON.stringify(write(credential));
    form.submit();
  };

  const explain = (form, error) => {
    if (error instanceof Sentence) return error.message;
    if (error.name === "NotAllowedError" || error.name === "AbortError") return form.dataset.cancelled;
    return error.name === "InvalidStateError" ? form.dataset.known : form.dataset.failed;
  };

  const forms = [...document.querySelectorAll("form[data-passkey]")];
  if (!window.PublicKeyCredential || !forms.length || forms[0].dataset.origin !== location.origin) return;
  for (const part of document.querySelectorAll("[data-no-passkeys]")) part.hidden = true;
  for (const form of forms) {
    form.hidden = false;
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const button = form.querySelector("button");
      const problem = form.querySelector("[data-problem]");
      button.disabled = true;
      problem.hidden = true;
      try {
        await send(form);
      } catch (error) {
        problem.textContent = explain(form, error);
        problem.hidden = false;
      } finally {
        button.disabled = false;
      }
    });
  }
})();
