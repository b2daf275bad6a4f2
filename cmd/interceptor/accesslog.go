package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
)

// addAccessLogFlags adds the flags of the format and the filter of the access log.
func (s *settings) addAccessLogFlags(flags *pflag.FlagSet) {
	log := &s.translate.AccessLogSettings
	flags.StringVar(&log.Format, "access-log-format", translate.FormatJSON,
		"`format` of the access log: json, text, or a format string of Envoy")
	flags.StringToStringVar(&log.Fields, "access-log-fields", nil,
		"comma-separated additional `fields` of the access log as JSON, such as traceId=%TRACE_ID%")
	flags.StringSliceVar(&log.Filter, "access-log-filter", nil,
		"comma-separated `conditions`, of which one must be true for a request to be logged: status>=500, duration>=1s, "+
			"flag=UH, any-flag, grpc-error")
	flags.StringVar(&log.Sampling, "access-log-sampling", "",
		"`percentage` of the requests that are logged although no condition is true; by default 100 without conditions, "+
			"and 0 with some")
}

// checkAccessLog validates the settings of the access log.
func (s *settings) checkAccessLog() error {
	if err := s.translate.AccessLogSettings.Check(); err != nil {
		return fmt.Errorf("%w: %w", errSetting, err)
	}
	return nil
}
