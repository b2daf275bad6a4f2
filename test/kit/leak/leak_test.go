package leak

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

func TestVerify(t *testing.T) {
	tests := map[string]struct {
		tests int
		// ends is how long after the tests the last goroutine ends.
		ends time.Duration
		want int
	}{
		"no goroutine":               {want: 0},
		"a goroutine that ends late": {ends: await.MinPatience - time.Second, want: 0},
		"a goroutine that stays":     {ends: 100 * time.Hour, want: 1},
		"failed tests":               {tests: 2, ends: 100 * time.Hour, want: 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				find := func() error {
					if time.Since(began) < test.ends {
						return errors.New("goroutine 7 runs")
					}
					return nil
				}
				if got := verify(func() int { return test.tests }, find); got != test.want {
					t.Errorf("exit status %d, want %d", got, test.want)
				}
			})
		})
	}
}
