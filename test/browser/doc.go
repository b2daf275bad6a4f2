// Package browser drives the live page of a built interceptor in Chromium, with an API server, an Envoy and 10,000
// objects. It needs Node.js, the packages of package.json in the folder BROWSER_PACKAGES, and Chromium in CHROMIUM_BIN:
// see make test-browser.
package browser
