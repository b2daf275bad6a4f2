package main

import (
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/benchresult"
)

func TestBothProgramsCountTogether(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		interceptor, scaler usage
		want                string
	}{
		"within the limits": {usage{CorePercent: 4, ResidentMB: 90}, usage{CorePercent: 6, ResidentMB: 60}, ""},
		"too busy": {
			usage{CorePercent: 4.5, ResidentMB: 90},
			usage{CorePercent: 6, ResidentMB: 60},
			"% of a core is 10.50, at most 10.00 is allowed",
		},
		"too large": {
			usage{CorePercent: 4, ResidentMB: 91},
			usage{CorePercent: 6, ResidentMB: 60},
			"MB is 151.00, at most 150.00 is allowed",
		},
	} {
		r := report{Asked: programUsage{test.interceptor, test.scaler}}
		r.summarise()
		err := benchresult.Verdict(r.Limits)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheTableHasBothPrograms(t *testing.T) {
	t.Parallel()
	r := report{Objects: 1000, Asked: programUsage{
		Interceptor: usage{CorePercent: 1.5}, Scaler: usage{CorePercent: 2.5, ResidentMB: 30.5},
	}}
	var printed strings.Builder
	r.table(&printed)
	for _, want := range []string{"1000 HTTPScaledObjects", "called by KEDA", "interceptor", "2.5", "30.5", "4.0"} {
		if !strings.Contains(printed.String(), want) {
			t.Errorf("%q is not in\n%s", want, printed.String())
		}
	}
}
