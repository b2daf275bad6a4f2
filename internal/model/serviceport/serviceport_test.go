package serviceport_test

import (
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/model/serviceport"
)

func TestFor(t *testing.T) {
	t.Parallel()
	type ports = []serviceport.Port
	canary := ports{
		{Number: 80, Name: "web", Target: "8080"},
		{Number: 443, Name: "secure", Target: "tls"},
		{Number: 9, Target: "0"},
	}
	tests := map[string]struct {
		number  int32
		offered ports
		want    int32 // 0 for none
	}{
		"the same number comes first":         {80, ports{{Number: 8080}, {Number: 80}}, 80},
		"the container's port":                {80, ports{{Number: 9090, Name: "web"}, {Number: 8080}}, 8080},
		"the container's port, by its name":   {443, ports{{Number: 1, Name: "secure"}, {Number: 8443, Name: "tls"}}, 8443},
		"the name of the canary's port":       {80, ports{{Number: 1}, {Number: 2, Name: "web"}}, 2},
		"http":                                {80, ports{{Number: 1}, {Number: 2, Name: "http"}}, 2},
		"the only one":                        {80, ports{{Number: 7}}, 7},
		"none of several":                     {80, ports{{Number: 1}, {Number: 2}}, 0},
		"none at all":                         {80, nil, 0},
		"a port that the canary doesn't have": {81, ports{{Number: 1}, {Number: 2, Name: "http"}}, 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, is := serviceport.For(canary, test.number, test.offered); got.Number != test.want || is != (test.want != 0) {
				t.Errorf("port %d, %v, want %d", got.Number, is, test.want)
			}
		})
	}
}
