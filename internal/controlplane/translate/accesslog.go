package translate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	streamlogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stream/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// Formats of the access log.
const (
	// FormatJSON writes one JSON object per request.
	FormatJSON = "json"
	// FormatText writes one line of text per request.
	FormatText = "text"
)

// textFormat is the format FormatText: the default of Envoy, with the route, the cluster and the details.
const textFormat = `[%START_TIME%] "%REQ(:METHOD):4096% %REQ(:PATH):4096% %PROTOCOL%" %RESPONSE_CODE% %RESPONSE_FLAGS% ` +
	`%RESPONSE_CODE_DETAILS% %BYTES_RECEIVED% %BYTES_SENT% %DURATION% "%REQ(X-FORWARDED-FOR):4096%" ` +
	`"%REQ(USER-AGENT):4096%" "%REQ(X-REQUEST-ID):4096%" "%REQ(:AUTHORITY):4096%" "%UPSTREAM_HOST%" ` +
	`%ROUTE_NAME% %UPSTREAM_CLUSTER%`

// AccessLog configures which requests are logged, and how. The zero value logs all requests as JSON.
type AccessLog struct {
	// Format is FormatJSON, FormatText, or a format string of Envoy; "" means FormatJSON.
	Format string
	// Fields are additional fields of FormatJSON, by name, as format strings of Envoy.
	Fields map[string]string
	// Filter are the conditions on a request to be logged, of which one must be true; see Condition. Without a condition,
	// every request is logged.
	Filter []string
	// Sampling is the percentage of the requests that are logged if no condition is true; "" means 100 without conditions,
	// and 0 with some.
	Sampling string
}

// Check returns an error that names the flag of an invalid setting, and the fix.
func (a AccessLog) Check() error {
	if a.isText() {
		if err := checkFormat("--access-log-format", a.text()); err != nil {
			return err
		}
		if len(a.Fields) > 0 {
			return accessLogError("--access-log-fields", "the format is text", "use --access-log-format=json, or add the "+
				"commands to the format string")
		}
	}
	known := jsonFields()
	for _, name := range slices.Sorted(maps.Keys(a.Fields)) {
		if _, isKnown := known[name]; isKnown || name == "" {
			return accessLogError("--access-log-fields", fmt.Sprintf("%q is empty, or the name of a field of the log", name),
				"use another name")
		}
		if !utf8.ValidString(name) {
			return accessLogError("--access-log-fields", fmt.Sprintf("name %q is not valid UTF-8", name), "write it in UTF-8")
		}
		if err := checkFormat("--access-log-fields: "+name, a.Fields[name]); err != nil {
			return err
		}
	}
	_, err := a.filter()
	return err
}

// isText reports whether the format is a line of text.
func (a AccessLog) isText() bool { return a.Format != "" && a.Format != FormatJSON }

// text returns the format string of a line, without its end.
func (a AccessLog) text() string {
	if a.Format == FormatText {
		return textFormat
	}
	return a.Format
}

// accessLogs returns the access log: one line per request on standard output, or nothing. The log uses standard output
// directly, because a process that has dropped its privileges cannot open /dev/stdout.
func (o Options) accessLogs() ([]*accesslogv3.AccessLog, error) {
	if !o.AccessLog {
		return nil, nil
	}
	format, err := o.AccessLogSettings.substitution()
	if err != nil {
		return nil, err
	}
	filter, err := o.AccessLogSettings.filter()
	if err != nil {
		return nil, err
	}
	config, err := pack(&streamlogv3.StdoutAccessLog{
		AccessLogFormat: &streamlogv3.StdoutAccessLog_LogFormat{LogFormat: format},
	})
	if err != nil {
		return nil, err
	}
	return []*accesslogv3.AccessLog{{
		Name: "envoy.access_loggers.stdout", Filter: filter,
		ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: config},
	}}, nil
}

// substitution returns the format of a line.
func (a AccessLog) substitution() (*corev3.SubstitutionFormatString, error) {
	if a.isText() {
		return &corev3.SubstitutionFormatString{Format: &corev3.SubstitutionFormatString_TextFormatSource{
			TextFormatSource: inlineBody(strings.TrimRight(a.text(), "\n") + "\n"),
		}}, nil
	}
	all := jsonFields()
	for name, format := range a.Fields {
		all[name] = format
	}
	fields, err := structpb.NewStruct(all)
	if err != nil {
		return nil, fmt.Errorf("access log format: %w", err)
	}
	return &corev3.SubstitutionFormatString{Format: &corev3.SubstitutionFormatString_JsonFormat{JsonFormat: fields}}, nil
}

// jsonFields returns the fields of FormatJSON.
func jsonFields() map[string]any {
	return map[string]any{
		"time":           "%START_TIME%",
		"client":         "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
		"forwardedFor":   logged("X-FORWARDED-FOR"),
		"requestId":      logged("X-REQUEST-ID"),
		"protocol":       "%PROTOCOL%",
		"method":         logged(":METHOD"),
		"host":           logged(":AUTHORITY"),
		"path":           logged(":PATH"),
		"userAgent":      logged("USER-AGENT"),
		"status":         "%RESPONSE_CODE%",
		"flags":          "%RESPONSE_FLAGS%",
		"details":        "%RESPONSE_CODE_DETAILS%",
		"bytesIn":        "%BYTES_RECEIVED%",
		"bytesOut":       "%BYTES_SENT%",
		"milliseconds":   "%DURATION%",
		"route":          "%ROUTE_NAME%",
		"cluster":        "%UPSTREAM_CLUSTER%",
		"endpoint":       "%UPSTREAM_HOST%",
		"transportError": "%UPSTREAM_TRANSPORT_FAILURE_REASON%",
	}
}

// logged returns the format of a request header in the access log, up to maxLogged bytes.
func logged(header string) string { return fmt.Sprintf("%%REQ(%s):%d%%", header, maxLogged) }
