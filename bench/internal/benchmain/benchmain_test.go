package benchmain

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"testing"
)

func TestInvalidArgumentsAreRejected(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args    []string
		environ map[string]string
		envoy   string // "" where it is refused
	}{
		"by the environment": {nil, map[string]string{"ETCD_BIN": "/e", "KUBE_APISERVER_BIN": "/k", "ENVOY_BIN": "/v"}, "/v"},
		"by arguments": {
			[]string{"--etcd=/e", "--kube-apiserver=/k", "--envoy=/w"}, map[string]string{"ENVOY_BIN": "/v"}, "/w",
		},
		"without Envoy":       {nil, map[string]string{"ETCD_BIN": "/e", "KUBE_APISERVER_BIN": "/k"}, ""},
		"without etcd":        {nil, map[string]string{"KUBE_APISERVER_BIN": "/k", "ENVOY_BIN": "/v"}, ""},
		"one of its own":      {[]string{"--etcd=/e", "--kube-apiserver=/k", "--envoy=/v", "--samples=3"}, nil, "/v"},
		"a bad one of itself": {[]string{"--etcd=/e", "--kube-apiserver=/k", "--envoy=/v", "--samples=0"}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			samples := 0
			chosen, err := Benchmark{
				Name:  "test",
				Flags: func(flags *flag.FlagSet) { flags.IntVar(&samples, "samples", 1, "`number`") },
				Check: func() error {
					if samples < 1 {
						return fmt.Errorf("%w: --samples is %d, at least 1", ErrArgument, samples)
					}
					return nil
				},
			}.Parse(test.args, func(name string) string { return test.environ[name] }, io.Discard)
			if test.envoy == "" && !errors.Is(err, ErrArgument) ||
				test.envoy != "" && (err != nil || chosen.Envoy != test.envoy) {
				t.Errorf("Envoy is %q, error %v", chosen.Envoy, err)
			}
		})
	}
}
