// Package counts tests the number of API requests of each call. The built plugins run over go-plugin against a real API
// server, whose audit log has all requests of their ServiceAccount. The numbers are exact: a call that changes an
// object writes it once, and a call that changes nothing sends no request while a watch is open.
package counts
