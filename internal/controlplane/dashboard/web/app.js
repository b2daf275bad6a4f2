// The page: it shows the overview (#/) or one object (#/namespace/name), and follows the stream of what it shows.
import { byId, setText } from "./dom.js";
import { follow, setToken } from "./stream.js";
import * as list from "./list.js";
import * as detail from "./detail.js";

const states = { live: "Live", waiting: "Not connected. Trying again…" };
let stop = () => {}, replica = "";

function setState(state, reason) {
  const more = state === "live" && replica ? `, from ${replica}` : reason ? ` (${reason})` : "";
  setText(byId("connection"), states[state] + more);
}

function showOnly(id) {
  for (const part of ["login", "overview", "detail"]) byId(part).hidden = part !== id;
}

function setInterceptors(found) {
  replica = found.replica;
  byId("absent").hidden = found.absent.length === 0;
  setText(byId("absent"), found.absent.length ? `No counts from interceptor ${found.absent.join(", ")}: rates and requests are lower bounds.` : "");
  setState("live");
}

function route() {
  stop();
  const [path, query] = location.hash.slice(1).split("?");
  const [, namespace, name] = path.split("/").map(decodeURIComponent);
  if (namespace && name) showObject(namespace, name);
  else showOverview(new URLSearchParams(query ?? ""));
}

function showOverview(query) {
  document.title = "HTTP canaries";
  showOnly("overview");
  for (const field of ["search", "state"]) byId(field).value = query.get(field) ?? "";
  const select = byId("namespace"), wanted = query.get("namespace") ?? "";
  if (wanted && ![...select.options].some((option) => option.value === wanted)) select.add(new Option(wanted, wanted));
  select.value = wanted;
  list.filter();
  stop = follow("api/v1/watch", { objects: list.update, interceptors: setInterceptors, onState: setState, onDenied });
}

function showObject(namespace, name) {
  const key = `${namespace}/${name}`;
  document.title = `${key} – HTTP canaries`;
  showOnly("detail");
  const path = `api/v1/objects/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}/watch`;
  stop = follow(path, {
    object: (value) => {
      byId("absent").hidden = value.absent.length === 0;
      setText(byId("absent"), value.absent.length ? `No counts from interceptor ${value.absent.join(", ")}: rates and requests are lower bounds.` : "");
      detail.show(value);
    },
    gone: () => detail.missing(key), onState: setState,
    onDenied: (status, reason) => (status === 403 ? detail.denied(key, reason) : onDenied(status, reason)),
  });
}

function onDenied(status, reason) {
  setText(byId("connection"), "Not connected");
  showOnly("login");
  setText(byId("login-error"), reason);
  byId("token").focus();
}

/** saveFilters puts the filters into the address, so that it can be shared. */
function saveFilters() {
  const query = new URLSearchParams();
  for (const field of ["search", "namespace", "state"]) if (byId(field).value) query.set(field, byId(field).value);
  const text = query.toString();
  history.replaceState(null, "", text ? `#/?${text}` : "#/");
}

byId("login-form").addEventListener("submit", (event) => {
  event.preventDefault();
  setToken(byId("token").value);
  byId("token").value = "";
  route();
});
addEventListener("hashchange", () => { route(); byId("main").focus({ preventScroll: true }); });
setInterval(detail.tick, 1000);
list.start(saveFilters);
route();
