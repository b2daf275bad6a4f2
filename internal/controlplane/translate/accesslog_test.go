package translate_test

import (
	"strings"
	"testing"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
)

// TestAccessLogErrors: an invalid setting is rejected with the flag and the fix.
func TestAccessLogErrors(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		settings translate.AccessLog
		want     []string // parts of the error
	}{
		"a format without commands":       {translate.AccessLog{Format: "jsn"}, []string{"--access-log-format", `"jsn"`, "json, text"}},
		"an unpaired percent sign":        {translate.AccessLog{Format: "100% %DURATION%"}, []string{"--access-log-format", "%%"}},
		"an unknown command":              {translate.AccessLog{Format: "%DURATIONS%"}, []string{"%DURATIONS%", "unknown command"}},
		"no header":                       {translate.AccessLog{Format: "%REQ%"}, []string{"%REQ%", "name of a header"}},
		"an argument of another command":  {translate.AccessLog{Format: "%DURATION(ms)%"}, []string{"takes no argument"}},
		"a length of another command":     {translate.AccessLog{Format: "%DURATION:3%"}, []string{"takes no length"}},
		"fields of text":                  {translate.AccessLog{Format: "text", Fields: map[string]string{"a": "%TRACE_ID%"}}, []string{"--access-log-fields", "json"}},
		"a field that exists":             {translate.AccessLog{Fields: map[string]string{"status": "%DURATION%"}}, []string{"--access-log-fields", `"status"`}},
		"a field with an unknown command": {translate.AccessLog{Fields: map[string]string{"a": "%A%"}}, []string{"--access-log-fields: a", "%A%"}},
		"a long format":                   {translate.AccessLog{Format: strings.Repeat("%DURATION%", 500)}, []string{"5000 bytes", "4096"}},
		"an unknown condition":            {translate.AccessLog{Filter: []string{"status>5"}}, []string{"--access-log-filter", "status>=500"}},
		"a status that does not exist":    {translate.AccessLog{Filter: []string{"status>=600"}}, []string{"600", "100 to 599"}},
		"a negative time":                 {translate.AccessLog{Filter: []string{"duration>=-1s"}}, []string{"-1s", "1ms to 24h"}},
		"an unknown flag":                 {translate.AccessLog{Filter: []string{"flag=XX"}}, []string{"XX", "UH"}},
		"a sample above 100 %":            {translate.AccessLog{Sampling: "101"}, []string{"--access-log-sampling", "0 to 100"}},
		"a format that is not UTF-8":      {translate.AccessLog{Format: "%DURATION% \xff"}, []string{"--access-log-format", "UTF-8"}},
		"a field that is not UTF-8":       {translate.AccessLog{Fields: map[string]string{"a\xff": "%DURATION%"}}, []string{"--access-log-fields", "UTF-8"}},
		"a field without a name":          {translate.AccessLog{Fields: map[string]string{"": "%DURATION%"}}, []string{"--access-log-fields", "empty"}},
		"an unclosed argument":            {translate.AccessLog{Format: "%REQ(X-A%"}, []string{"%REQ(X-A%", "optional argument"}},
		"a header with a line end":        {translate.AccessLog{Format: "%REQ(X-A\nB)%"}, []string{"name of a header"}},
		"a length of 0":                   {translate.AccessLog{Format: "%REQ(X-A):0%"}, []string{"optional argument and length"}},
		"a command of another extension":  {translate.AccessLog{Format: "%CEL(request.path)%"}, []string{"unknown command"}},
		"a time format":                   {translate.AccessLog{Format: "%START_TIME(%Y)%"}, []string{"--access-log-format"}},
		"a sample that would log nothing": {translate.AccessLog{Sampling: "0.00001"}, []string{"--access-log-sampling", "0.0001"}},
		"a sample that would log all":     {translate.AccessLog{Sampling: "99.99999"}, []string{"--access-log-sampling", "0.0001"}},
		"a sample of NaN":                 {translate.AccessLog{Sampling: "NaN"}, []string{"--access-log-sampling"}},
		"a filter without an effect":      {translate.AccessLog{Filter: []string{"any-flag"}, Sampling: "100"}, []string{"no effect"}},
	} {
		err := test.settings.Check()
		for _, part := range test.want {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: error %v, want one with %q", name, err, part)
			}
		}
	}
}

// TestAccessLogFilter: which requests are logged. Without settings, the log has no filter.
func TestAccessLogFilter(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		settings   translate.AccessLog
		conditions int
		sample     uint32 // of a million; 0 if requests without a true condition are not logged
	}{
		"all":                     {translate.AccessLog{}, 0, 0},
		"a sample":                {translate.AccessLog{Sampling: "0.5"}, 0, 5000},
		"errors":                  {translate.AccessLog{Filter: []string{"status>=500"}}, 1, 0},
		"errors, and some others": {translate.AccessLog{Filter: []string{"status>=500", "duration>=2s"}, Sampling: "1"}, 2, 10_000},
	} {
		options := holdOptions()
		options.AccessLogSettings = test.settings
		filter := managersOf(t, options)[translate.ListenerName].GetAccessLog()[0].GetFilter()
		conditions, sample := 0, uint32(0)
		alternatives := filter.GetOrFilter().GetFilters()
		if alternatives == nil && filter != nil {
			alternatives = []*accesslogv3.AccessLogFilter{filter}
		}
		for _, alternative := range alternatives {
			if sampled := alternative.GetRuntimeFilter(); sampled != nil {
				sample = sampled.GetPercentSampled().GetNumerator()
			} else {
				conditions++
			}
		}
		if diff := cmp.Diff([]any{test.conditions, test.sample}, []any{conditions, sample}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
