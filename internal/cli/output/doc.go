// Package output prints the results of commands: tables as kubectl prints them, marks and colors, and versioned JSON and
// YAML. It is pure: callers pass the writer, the environment and the time.
package output
