package translate

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// errAccessLog is the error of an invalid setting of the access log.
var errAccessLog = errors.New("invalid access log")

// accessLogError returns the error of a flag.
func accessLogError(flag, problem, fix string) error {
	return fmt.Errorf("%w: %s: %s: %s", errAccessLog, flag, problem, fix)
}

// FormatCommands returns the commands of format strings, without arguments, that are accepted. Envoy 1.40 has more; it
// rejects a listener with an unknown one.
func FormatCommands() []string {
	return []string{
		"START_TIME", "DURATION", "REQUEST_DURATION", "REQUEST_TX_DURATION", "RESPONSE_DURATION", "RESPONSE_TX_DURATION",
		"BYTES_RECEIVED", "BYTES_SENT", "PROTOCOL", "RESPONSE_CODE", "RESPONSE_CODE_DETAILS", "RESPONSE_FLAGS",
		"RESPONSE_FLAGS_LONG", "CONNECTION_TERMINATION_DETAILS", "CONNECTION_ID", "ROUTE_NAME", "VIRTUAL_CLUSTER_NAME",
		"GRPC_STATUS", "GRPC_STATUS_NUMBER", "TRACE_ID", "STREAM_ID", "UPSTREAM_CLUSTER", "UPSTREAM_CLUSTER_RAW",
		"UPSTREAM_HOST", "UPSTREAM_PROTOCOL", "UPSTREAM_REMOTE_ADDRESS", "UPSTREAM_REMOTE_ADDRESS_WITHOUT_PORT",
		"UPSTREAM_REMOTE_PORT", "UPSTREAM_LOCAL_ADDRESS", "UPSTREAM_REQUEST_ATTEMPT_COUNT", "UPSTREAM_TLS_VERSION",
		"UPSTREAM_TRANSPORT_FAILURE_REASON", "UPSTREAM_CONNECTION_POOL_READY_DURATION", "UPSTREAM_WIRE_BYTES_RECEIVED",
		"UPSTREAM_WIRE_BYTES_SENT", "DOWNSTREAM_LOCAL_ADDRESS", "DOWNSTREAM_LOCAL_PORT", "DOWNSTREAM_REMOTE_ADDRESS",
		"DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT", "DOWNSTREAM_REMOTE_PORT", "DOWNSTREAM_DIRECT_REMOTE_ADDRESS",
		"DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT", "DOWNSTREAM_TLS_VERSION", "DOWNSTREAM_TLS_CIPHER",
		"DOWNSTREAM_WIRE_BYTES_RECEIVED", "DOWNSTREAM_WIRE_BYTES_SENT", "DOWNSTREAM_TRANSPORT_FAILURE_REASON",
		"REQUESTED_SERVER_NAME", "HOSTNAME",
	}
}

// headerCommands returns the commands with the name of a header as their argument.
func headerCommands() []string { return []string{"REQ", "RESP", "TRAILER"} }

const (
	// commandPattern matches a command of a format string: a name, an argument and a maximum length in bytes.
	commandPattern = `^([A-Z_]+)(?:\(([^()%]*)\))?(?::([1-9][0-9]{0,4}))?$`
	// headerPattern matches the argument of headerCommands: a header, and an alternative.
	headerPattern = `^:?[A-Za-z0-9_-]+(\?:?[A-Za-z0-9_-]+)?$`
	// maxFormat is the maximum size of a format string in bytes.
	maxFormat = 4096
)

// checkFormat returns an error that names the flag if a format string is invalid.
func checkFormat(flag, format string) error {
	if !utf8.ValidString(format) {
		return accessLogError(flag, fmt.Sprintf("%q is not valid UTF-8", format), "write it in UTF-8")
	}
	if len(format) > maxFormat {
		return accessLogError(flag, fmt.Sprintf("the format string has %d bytes", len(format)),
			fmt.Sprintf("use at most %d", maxFormat))
	}
	parts := strings.Split(format, "%")
	if len(parts) == 1 {
		return accessLogError(flag, fmt.Sprintf("%q has no command", format),
			"use json, text or a format string of Envoy such as %RESPONSE_CODE%")
	}
	if len(parts)%2 == 0 {
		return accessLogError(flag, fmt.Sprintf("%q has a percent sign without a pair", format),
			"write %% for a percent sign")
	}
	for i := 1; i < len(parts); i += 2 {
		if parts[i] == "" {
			continue // a percent sign
		}
		if problem := commandProblem(parts[i]); problem != "" {
			return accessLogError(flag, fmt.Sprintf("%%%s%%: %s", parts[i], problem),
				"use the commands of docs/how-to/access-logs.md")
		}
	}
	return nil
}

// commandProblem returns what is wrong with a command, "" if it is valid.
func commandProblem(command string) string {
	match := regexp.MustCompile(commandPattern).FindStringSubmatch(command)
	if match == nil {
		return "no command with an optional argument and length"
	}
	name, argument, length := match[1], match[2], match[3]
	hasArgument := strings.Contains(command, "(")
	switch {
	case slices.Contains(headerCommands(), name):
		if !regexp.MustCompile(headerPattern).MatchString(argument) {
			return "needs the name of a header"
		}
	case !slices.Contains(FormatCommands(), name):
		return "unknown command"
	case hasArgument:
		return "takes no argument"
	case length != "":
		return "takes no length"
	}
	return ""
}
