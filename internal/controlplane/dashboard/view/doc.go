// Package view is the content of the live page: it converts what the interceptor has of an HTTPScaledObject to the
// values of the JSON API. It is pure. The API is described in web/openapi.json of package dashboard.
package view
